"""How phones are notified and answer, shown by the real server and by the simulated one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from agent_gate.simulated_home import Running
from tests.contract.houses import House, a_raw
from tests.gates import until
from tests.real.phones import a_real_phone

ACTIONS = [{"action": "AG_ALLOW_1", "title": "Allow"}, {"action": "AG_DENY_1", "title": "Deny"}]


@dataclass(frozen=True)
class Phone:
    """Of the user who is no admin."""

    service: str
    shown: Callable[[], Awaitable[dict[str, Any]]]
    press: Callable[[str], Awaitable[None]]


@asynccontextmanager
async def a_phone(house: House) -> AsyncIterator[Phone]:
    if isinstance(house.of, Running):
        yield _simulated(house.of)
        return
    async with a_real_phone(house.of, house.limited_token) as phone:
        yield Phone(phone.service, phone.shown, lambda action: phone.press(action, message="?", tag="t1"))


def _simulated(running: Running) -> Phone:
    home, service = running.home, "mobile_app_guest_phone"

    async def shown() -> dict[str, Any]:
        await until(lambda: home.notifications)
        last = home.notifications[-1]
        return {"message": last.message, "title": last.title, "data": dict(last.data)}

    async def press(action: str) -> None:
        home.act_on_notification(action, phone=service)

    return Phone(service, shown, press)


async def test_a_phone_is_notified_with_buttons_and_its_answer_is_an_event_of_its_user(house: House) -> None:
    async with a_phone(house) as phone, a_raw(house) as raw, a_raw(house, house.limited_token) as limited:
        user = await limited.ask("auth/current_user")
        services = (await raw.ask("get_services"))["notify"]
        assert services[phone.service]["fields"]["message"]["required"]
        await raw.ask("subscribe_events", event_type="mobile_app_notification_action")
        data = {"tag": "t1", "actions": ACTIONS}
        await raw.call(f"notify.{phone.service}", message="?", title="Allow it", data=data)
        shown = await phone.shown()
        assert (shown["message"], shown["title"], shown["data"]) == ("?", "Allow it", data)
        await phone.press("AG_ALLOW_1")
        event = await raw.event(lambda one: one["event_type"] == "mobile_app_notification_action")
        assert event["data"].items() >= {"action": "AG_ALLOW_1", "tag": "t1", "message": "?"}.items()
        assert (event["origin"], event["context"]["user_id"]) == ("REMOTE", user["id"])


async def test_an_admin_can_fire_the_same_event_and_only_its_origin_tells_them_apart(house: House) -> None:
    async with a_raw(house) as raw:
        await raw.ask("subscribe_events", event_type="mobile_app_notification_action")
        await raw.ask("fire_event", event_type="mobile_app_notification_action", event_data={"action": "forged"})
        event = await raw.event(lambda one: one["data"]["action"] == "forged")
        assert event["origin"] == "LOCAL"
        await house.rest("POST", "/api/events/mobile_app_notification_action", json={"action": "as remote"})
        event = await raw.event(lambda one: one["data"]["action"] == "as remote")
        assert event["origin"] == "REMOTE"


async def test_a_phone_that_is_not_there_is_a_service_that_is_not_found(house: House) -> None:
    async with a_raw(house) as raw:
        fields = {"domain": "notify", "service": "mobile_app_nope", "service_data": {"message": "x"}}
        error = await raw.refused("call_service", **fields)
        assert (error["code"], error["message"]) == ("not_found", "Service notify.mobile_app_nope not found.")

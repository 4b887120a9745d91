"""The scenarios of the module document through the whole gate, on the real server and on the simulated one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from agent_gate import Gate, open_gate
from agent_gate.config import HomeAssistantConfig
from agent_gate.ledger.sqlite.ledger import SqliteLedger
from agent_gate.model.errors import Problem
from agent_gate.services.contacts import ContactsService
from agent_gate.services.home_assistant.bounds import HomeBounds
from agent_gate.services.home_assistant.service import HomeAssistantService
from agent_gate.system.clock import RandomIds, SystemClock
from agent_gate.tools.home_assistant.declarations import PERIODS
from tests.contract.houses import House, a_raw, eventually
from tests.gates import ALLOW_ALL, until

LIGHT, GUEST, MOVIE = "light.kitchen_lights", "input_boolean.guest_mode", "input_boolean.movie_mode"
TEMPERATURE, ENERGY = "kitchen_sink:temperature_outdoor", "kitchen_sink:energy_consumption_kwh"
POLICY = {**ALLOW_ALL, "roles": {"operator": {"max_risk": "high"}}, "approvals": []}


class At:
    """Calls of one agent in one house."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate

    async def ask(self, tool: str, **args: Any) -> Any:
        outcome = await self.gate.call(tool, args)
        assert outcome.ok, outcome.error
        return outcome.data

    async def refused(self, tool: str, **args: Any) -> Problem:
        outcome = await self.gate.call(tool, args)
        assert outcome.error is not None, outcome
        return outcome.error


@asynccontextmanager
async def at_home(house: House, db: Path, token: str = "") -> AsyncIterator[At]:
    settings = HomeAssistantConfig(house.url, token or house.token)
    async with open_gate(POLICY, db, home_assistant=settings, services=()) as gate:
        yield At(gate)


@pytest.fixture
async def home(house: House, tmp_path: Path) -> AsyncIterator[At]:
    async with at_home(house, tmp_path / "gate.db") as found:
        yield found


def ago(**time: float) -> str:
    return (datetime.now(timezone.utc) - timedelta(**time)).isoformat()


def ids(answer: Any) -> list[str]:
    return [row["entity_id"] for row in answer["entities"]]


async def test_a_state_is_whole_and_from_the_cache(home: At) -> None:
    for tool in ("ha_get_entity_state", "ha_get_state"):
        found = await home.ask(tool, entity_id=LIGHT)
        assert (found["entity_id"], found["area_name"], found["live"], found["age_s"]) == (LIGHT, "Kitchen", True, 0)
        assert found["attributes"]["friendly_name"] == "Kitchen Lights"
        assert datetime.fromisoformat(found["last_updated"]) >= datetime.fromisoformat(found["last_changed"])
    everything = await home.ask("ha_get_states")
    assert everything["count"] == len(everything["entities"]) > 35
    error = await home.refused("ha_get_state", entity_id="light.kitchen_light")
    assert error.code == 2002
    assert error.suggestion.startswith("did you mean `light.kitchen_lights`")


async def test_what_changes_is_in_the_cache_at_once(home: At, house: House) -> None:
    before = (await home.ask("ha_get_state", entity_id=GUEST))["state"]
    async with a_raw(house) as raw:
        await raw.call("input_boolean.toggle", {"entity_id": GUEST})
    [service] = [service for service in home.gate.services if isinstance(service, HomeAssistantService)]
    await until(lambda: service.client.home.entities[GUEST].state != before)
    assert (await home.ask("ha_get_state", entity_id=GUEST))["state"] == {"on": "off", "off": "on"}[before]


async def test_entities_are_listed_and_filtered(home: At) -> None:
    everything = await home.ask("ha_list_entities")
    assert ids(everything) == sorted(ids(everything))
    assert set(everything["entities"][0]) == {
        "entity_id", "state", "friendly_name", "area_name", "domain", "last_updated",
    }  # fmt: skip
    lights = await home.ask("ha_list_entities", domain="light")
    assert ids(lights) == [entity_id for entity_id in ids(everything) if entity_id.startswith("light.")]
    kitchen = await home.ask("ha_list_entities", area="kitchen")
    assert LIGHT in ids(kitchen)
    assert {row["area_name"] for row in kitchen["entities"]} == {"Kitchen"}
    both = await home.ask("ha_list_entities", area="KITCHEN", domain="light")
    assert set(ids(both)) == set(ids(kitchen)) & set(ids(lights))
    assert (await home.refused("ha_list_entities", area="kitchn")).suggestion == "did you mean `Kitchen`?"


async def test_areas_and_services_are_listed(home: At) -> None:
    areas = (await home.ask("ha_list_areas"))["areas"]
    assert [area["name"] for area in areas] == ["Bedroom", "Kitchen", "Living Room"]
    services = (await home.ask("ha_list_services", domain="light"))["services"]
    turn_on = next(row for row in services if row["service"] == "turn_on")
    assert {row["domain"] for row in services} == {"light"}
    assert (turn_on["name"], bool(turn_on["description"]), "brightness_pct" in turn_on["fields"]) == (
        "Turn on",
        True,
        True,
    )
    assert len((await home.ask("ha_list_services"))["services"]) > len(services)


async def test_history_is_flat_and_every_row_says_whose_it_is(home: At) -> None:
    for _ in range(3):
        await home.ask("ha_call_service", domain="input_boolean", service="toggle", entity_id=MOVIE)
    state = (await home.ask("ha_get_state", entity_id=MOVIE))["state"]

    async def rows() -> list[Any]:
        """Those of the entity, once the recorder has written the last of them."""
        answer = await home.ask("ha_get_history", entity_ids=[MOVIE, GUEST], start=ago(hours=1), end=ago())
        found = [row for row in answer["rows"] if row["entity_id"] == MOVIE]
        return found if len(found) >= 3 and found[-1]["state"] == state else []

    found = await eventually(rows)
    assert all(set(row) == {"entity_id", "state", "last_changed"} for row in found)
    assert [row["last_changed"] for row in found] == sorted(row["last_changed"] for row in found)
    error = await home.refused("ha_get_history", entity_ids=["sensor.never_was"], start=ago(hours=1), end=ago())
    assert (error.code, error.detail) == (2002, "there is no entity `sensor.never_was` in the home")


async def test_statistics_have_iso_times_and_unknown_ids_are_errors(home: At) -> None:
    span = {"start": ago(days=2), "end": ago()}
    answer = await home.ask("ha_get_statistics", statistic_ids=[TEMPERATURE, ENERGY], period="hour", **span)
    by_id = {name: [row for row in answer["rows"] if row["statistic_id"] == name] for name in (TEMPERATURE, ENERGY)}
    assert all(by_id.values())
    assert (by_id[TEMPERATURE][0]["sum"], by_id[ENERGY][0]["mean"]) == (None, None)
    assert by_id[TEMPERATURE][0]["mean"] is not None
    first = by_id[ENERGY][0]
    assert datetime.fromisoformat(first["end"]) - datetime.fromisoformat(first["start"]) == timedelta(hours=1)
    for period in PERIODS:
        await home.ask("ha_get_statistics", statistic_ids=[TEMPERATURE], period=period, start=span["start"])
    error = await home.refused("ha_get_statistics", statistic_ids=["sensor.never_was"], period="day", **span)
    assert (error.code, error.detail) == (2002, "there are no statistics of `sensor.never_was` in the home")
    empty = await home.ask(
        "ha_get_statistics",
        statistic_ids=[TEMPERATURE],
        period="day",
        start="2001-01-01T00:00:00Z",
        end="2001-02-01T00:00:00Z",
    )
    assert (empty["rows"], empty["without_data"]) == ([], [TEMPERATURE])


async def test_a_template_is_rendered_or_says_why_not(home: At, house: House, tmp_path: Path) -> None:
    assert await home.ask("ha_render_template", template=f"{{{{ state_attr('{LIGHT}', 'friendly_name') }}}}!") == (
        "Kitchen Lights!"
    )
    assert "TemplateSyntaxError" in (await home.refused("ha_render_template", template="{{ states( }}")).detail
    async with at_home(house, tmp_path / "limited.db", house.limited_token) as limited:
        error = await limited.refused("ha_render_template", template="{{ 1 }}")
        assert "administrator" in error.suggestion
        assert (await limited.ask("ha_get_state", entity_id=LIGHT))["live"] is True


async def test_a_service_is_called_with_its_context_and_what_changed(home: At) -> None:
    await home.ask("ha_call_service", domain="light", service="turn_off", entity_id=LIGHT)
    told = await home.ask(
        "ha_call_service", domain="light", service="turn_on", target={"entity_id": LIGHT}, data={"brightness_pct": 80}
    )
    assert len(told["context_id"]) == 26
    assert [(one["entity_id"], one["state"]) for one in told["changed"]] == [(LIGHT, "on")]
    error = await home.refused(
        "ha_call_service", domain="light", service="turn_on", entity_id=LIGHT, data={"colour": 1}
    )
    assert "extra keys not allowed" in error.detail
    area = await home.ask("ha_call_service", domain="light", service="turn_off", target={"area_id": "kitchen"})
    assert LIGHT in {one["entity_id"] for one in area["changed"]}


async def test_a_scene_is_activated_and_nothing_else_is_taken_for_one(home: At) -> None:
    await home.ask("ha_call_service", domain="input_boolean", service="turn_off", entity_id=MOVIE)
    await home.ask("ha_activate_scene", entity_id="scene.movie_night", transition=0.5)
    assert (await home.ask("ha_get_state", entity_id=MOVIE))["state"] == "on"
    assert (await home.refused("ha_activate_scene", entity_id=LIGHT)).code == 2002
    assert (await home.refused("ha_activate_scene", entity_id="scene.never_was")).code == 2002


async def test_an_event_is_fired_for_those_who_listen(home: At, house: House) -> None:
    async with a_raw(house) as raw:
        await raw.ask("subscribe_events", event_type="doorbell_rang")
        await home.ask("ha_fire_event", event_type="doorbell_rang", event_data={"door": "front"})
        event = await raw.event(lambda one: bool(one["event_type"] == "doorbell_rang"))
    assert event["data"] == {"door": "front"}


async def test_lists_are_paged_and_nothing_is_shown_twice_or_not_at_all(home: At) -> None:
    whole = ids(await home.ask("ha_list_entities", domain="light"))
    found: list[str] = []
    page = await home.ask("ha_list_entities", domain="light", limit=2)
    while True:
        found += ids(page)
        assert page["left_out"] == len(whole) - len(found)
        if "next_cursor" not in page:
            break
        page = await home.ask("ha_list_entities", domain="light", limit=2, cursor=page["next_cursor"])
    assert found == whole
    assert ids(await home.ask("ha_get_states", limit=1, cursor=whole[0])) == whole[1:2]


async def test_a_past_without_an_end_goes_on_until_now_and_nulls_are_left_out(home: At) -> None:
    history = await home.ask("ha_get_history", entity_ids=[LIGHT], start=ago(minutes=5), end=None)
    assert history["end"] > history["start"]
    statistics = await home.ask("ha_get_statistics", statistic_ids=[TEMPERATURE], start=ago(days=1), period="hour")
    assert statistics["rows"]


async def test_a_deny_of_reading_one_entity_holds_for_every_list(house: House, tmp_path: Path) -> None:
    policy = {**POLICY, "rules": [*POLICY["rules"], {"pattern": f"ha_get_state({LIGHT})", "action": "deny"}]}
    settings = HomeAssistantConfig(house.url, house.token)
    async with open_gate(policy, tmp_path / "gate.db", home_assistant=settings, services=()) as gate:
        for tool in ("ha_get_states", "ha_list_entities"):
            answer = await At(gate).ask(tool)
            assert (LIGHT in ids(answer), answer["withheld"]) == (False, 1)
        assert (await At(gate).refused("ha_get_entity_state", entity_id=LIGHT)).code == 1001


async def test_a_revoked_token_is_replaced_by_its_owner_while_the_gate_runs(house: House, tmp_path: Path) -> None:
    settings = HomeAssistantConfig(house.url)
    async with ledger_with_token(tmp_path / "gate.db", await house.new_token()) as old:
        pass
    async with open_gate(POLICY, tmp_path / "gate.db", home_assistant=settings, services=()) as gate:
        [service] = [each for each in gate.services if isinstance(each, HomeAssistantService)]
        service.client._connection.bounds = HomeBounds(token_look_s=0.02)
        assert service.health.user is not None
        assert (service.health.version, service.health.user.is_admin) == (house.version, True)
        await house.revoke(old)
        await until(lambda: "refuses the token" in service.trouble)
        async with ledger_with_token(tmp_path / "gate.db", house.token):
            pass
        await until(lambda: service.client.home.is_live)
        assert (await At(gate).ask("ha_get_state", entity_id=LIGHT))["live"] is True


@asynccontextmanager
async def ledger_with_token(db: Path, token: str) -> AsyncIterator[str]:
    """As `owner set` leaves it."""
    clock, ids_of_calls = SystemClock(), RandomIds()
    ledger = SqliteLedger(db, clock, ids_of_calls)
    try:
        contacts = ContactsService(ledger, ledger.storage.secret(), clock, ids_of_calls)
        await contacts.set("home_assistant_token", token, by="anna")
        yield token
    finally:
        await ledger.close()

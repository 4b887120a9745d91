"""Halls whose approvers answer on their phones, with a simulated home between."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_gate import Outcome
from agent_gate.config import Config, HomeApproverConfig, HomeAssistantConfig, ServicesConfig
from agent_gate.doors.context import ServerContext
from agent_gate.doors.messengers.bounds import MessengerBounds
from agent_gate.doors.messengers.messenger import Messenger
from agent_gate.doors.messengers.phones.adapter import PhonesAdapter
from agent_gate.gate.gate import Gate
from agent_gate.model.call import CallRequest
from agent_gate.model.tool import Json
from agent_gate.simulated_home import Running, SimulatedHome
from agent_gate.simulated_home.notifications import Notification
from tests.chats import QUICK, Pauses
from tests.gates import ASK_ALL, QUICK_SUMMARY, HandClock, entries, until
from tests.servers import a_config, a_context

PIXEL, GUEST = "mobile_app_pixel", "mobile_app_guest_phone"
"""The phones of anna, an admin, and of bob, an operator."""


@dataclass(frozen=True)
class AtHome:
    """A gate whose people are at home, and what their phones show."""

    context: ServerContext
    approvals: Messenger
    adapter: PhonesAdapter
    home: SimulatedHome
    pauses: Pauses

    @property
    def gate(self) -> Gate:
        return self.context.gate

    async def ask(self, text: str = "hi", *, phone: str = PIXEL, agent: str = "bot") -> tuple[str, Notification]:
        """A call that is held, and what a phone shows of it."""
        outcome = await self.call({"text": text}, agent=agent, wait=False)
        return outcome.call_id, await self.notification(outcome.call_id, phone)

    async def call(
        self, args: Mapping[str, Json], *, tool: str = "mail.send", agent: str = "bot", wait: bool = True
    ) -> Outcome:
        request = CallRequest(self.context.identities.agents[agent], tool, args, wait=wait, door="websocket")
        return await self.gate.submit(request)

    def shown(self, phone: str = PIXEL) -> list[Notification]:
        """Each tag takes the place of the one before, until it is cleared."""
        by_tag: dict[str | None, Notification] = {}
        for one in self.home.notifications:
            if one.service == phone:
                by_tag.pop(one.tag, None)
                if one.message != "clear_notification":
                    by_tag[one.tag] = one
        return list(by_tag.values())

    def about(self, call_id: str, phone: str = PIXEL) -> list[Notification]:
        return [one for one in self.shown(phone) if any(call_id in button["action"] for button in one.actions)]

    async def notification(self, call_id: str, phone: str = PIXEL) -> Notification:
        await until(lambda: self.about(call_id, phone))
        return self.about(call_id, phone)[0]

    async def cleared(self, call_id: str, *phones: str) -> None:
        await until(lambda: not any(self.about(call_id, phone) for phone in phones or (PIXEL, GUEST)))

    def press(self, shown: Notification, title: str, *, user_id: str = "") -> None:
        """As the phone reports it that shows this."""
        self.home.act_on_notification(action_of(shown, title), phone=shown.service, user_id=user_id)

    async def is_open(self, call_id: str) -> bool:
        return await self.context.approvals.question(call_id) is not None

    async def turned_away(self, times: int = 1) -> None:
        """Return once the record says that so many presses were turned away."""

        def counted() -> bool:
            refused = [one for row in entries(self.gate, "door") for one in row["body"].get("refused", ())]
            ours = [one for one in refused if one["agent_id"].startswith("home_assistant:")]
            return bool(sum(one["count"] for one in ours) >= times)

        await until(counted)

    def refused_answers(self) -> list[tuple[str, str, str]]:
        """(verb, by whom, why)"""
        found = [row["body"].get("refused_answer") for row in entries(self.gate, "door")]
        return [(one["answer"], one["by"], one["error"]["name"]) for one in found if one]


def action_of(shown: Notification, title: str) -> str:
    return next(str(button["action"]) for button in shown.actions if button["title"] == title)


def titles(shown: Notification) -> list[str]:
    return [str(button["title"]) for button in shown.actions]


def home_config(running: Running, *phones: HomeApproverConfig, token: str = "") -> Config:
    known = phones or (HomeApproverConfig("anna", f"notify.{PIXEL}"), HomeApproverConfig("bob", f"notify.{GUEST}"))
    home = HomeAssistantConfig(running.url, token or running.token, approvals=known)
    return a_config(services=ServicesConfig(home))


@asynccontextmanager
async def at_home(
    directory: Path,
    running: Running,
    *tools: Any,
    policy: Any = ASK_ALL,
    clock: HandClock | None = None,
    config: Config | None = None,
    bounds: MessengerBounds = QUICK,
    limits: Mapping[str, int] | None = None,
    **options: Any,
) -> AsyncIterator[AtHome]:
    """One life of a server: it takes over what its predecessor held; `limits` are those of the adapter."""
    config = config or home_config(running)
    settings = config.services.homeassistant
    assert settings is not None
    pauses = Pauses()
    adapter = PhonesAdapter(settings, **(limits or {}))
    approvals = Messenger(adapter, pause=pauses, bounds=bounds)
    async with a_context(
        directory,
        policy,
        *tools,
        config=config,
        people=approvals,
        clock=clock or HandClock(),
        home_assistant=settings,
        **{"gate_bounds": QUICK_SUMMARY, **options},
    ) as context:
        approvals.attach(context)
        await approvals.start()
        try:
            await context.mailbox.take_over_held(context.identities.agents)
            yield AtHome(context, approvals, adapter, running.home, pauses)
        finally:
            await approvals.close()

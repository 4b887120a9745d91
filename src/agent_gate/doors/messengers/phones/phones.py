"""The phones of approvers, and how a notification gets there: by the gate's own connection to the home."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agent_gate.config import HomeAssistantConfig
from agent_gate.doors.identity import Identities
from agent_gate.doors.messengers.delivery import Undelivered
from agent_gate.model.approval import Approver
from agent_gate.model.bounds import HOME_NOTICE_S
from agent_gate.model.tool import Json
from agent_gate.services.home_assistant.client import HomeClient
from agent_gate.services.home_assistant.commands import SendCommand
from agent_gate.services.home_assistant.faults import OutcomeUnknown, Unreachable

PRESSED = "mobile_app_notification_action"
"""The event that tells of a press."""
_DEAF = "home assistant does not let the gate hear what is pressed on phones; give it the token of an administrator"
_CHANNEL = "Approvals"
_LEFT_S_MAX = 28 * 86_400
"""Push services keep nothing for longer."""


@dataclass(frozen=True, slots=True)
class Phone:
    approver: Approver
    """The person whose it is."""
    service: str
    """Of the domain `notify`."""
    user_id: str = ""
    """The user who must be signed in on it, by the home's own id; empty: anybody."""

    @property
    def holder(self) -> str:
        """Of the seals that this phone alone is given."""
        return f"{self.approver.id}\0{self.service}"


@dataclass(frozen=True, slots=True)
class Button:
    title: str
    action: str
    allows: bool
    """Then the phone must be unlocked for it."""


def phones_of(settings: HomeAssistantConfig, identities: Identities) -> tuple[Phone, ...]:
    return tuple(
        Phone(identities.approvers[one.approver], one.notify.removeprefix("notify."), one.user_id)
        for one in settings.approvals
    )


class Line:
    """To every phone; raises Refused where the home says no, and Undelivered where it is to be tried again."""

    def __init__(self, client: HomeClient, send: SendCommand) -> None:
        self._client, self._send_command = client, send

    @property
    def number(self) -> int:
        """Of the connection by which presses are heard; 0 while there is none."""
        return self._client.heard_by(PRESSED)

    @property
    def trouble(self) -> str:
        return self._client.trouble or ("" if self.number else _DEAF)

    def reaches(self, service: str) -> bool:
        """Say whether the home knows this phone, as far as the home is known."""
        home = self._client.home
        return not home.is_ready or ("notify", service) in home.services

    async def show(
        self, call_id: str, service: str, tag: str, title: str, text: str, buttons: Sequence[Button], left_s: int
    ) -> None:
        """Not while nobody would hear the answer; `left_s` after which the phone takes it away by itself."""
        if not self.number:
            raise Undelivered(self.trouble)
        actions = [
            {
                "action": button.action,
                "title": button.title,
                "authenticationRequired": button.allows,
                "destructive": not button.allows,
            }
            for button in buttons
        ]
        data = {**_options(tag, left_s), "actions": actions, "alert_once": True}
        await self._send(call_id, service, {"title": title, "message": text, "data": data})

    async def tell(self, call_id: str, service: str, tag: str, text: str, left_s: int) -> None:
        await self._send(call_id, service, {"message": text, "data": _options(tag, left_s)})

    async def clear(self, call_id: str, service: str, tag: str) -> None:
        await self._send(call_id, service, {"message": "clear_notification", "data": {"tag": tag}})

    async def _send(self, call_id: str, service: str, data: Mapping[str, Json]) -> None:
        """Send; what was perhaps sent is sent again, and takes the place of the one before.

        Also while nothing can be recorded, because that is what people then have to be told.
        """
        try:
            await self._send_command(
                call_id,
                "notify",
                service,
                target=None,
                data=data,
                timeout_s=HOME_NOTICE_S,
                told=_without_seals(data),
                must_be_recorded=False,
            )
        except (Unreachable, OutcomeUnknown) as error:
            raise Undelivered(error.problem.detail) from None


def _without_seals(data: Mapping[str, Json]) -> dict[str, Json]:
    """As it is recorded: whoever knew a button's action could press it, and with the tag take the question away."""
    options = {name: value for name, value in data["data"].items() if name != "tag"}
    if "actions" in options:
        options["actions"] = [
            {name: value for name, value in action.items() if name != "action"} for action in options["actions"]
        ]
    return {**data, "data": options}


def _options(tag: str, left_s: int) -> dict[str, Json]:
    """At once, hidden while the phone is locked, and gone with the deadline also where nobody says so."""
    left_s = min(left_s, _LEFT_S_MAX)
    return {
        "tag": tag,
        "channel": _CHANNEL,
        "importance": "high",
        "priority": "high",
        "ttl": left_s,
        "timeout": left_s,
        "visibility": "private",
        "push": {"interruption-level": "time-sensitive"},
    }

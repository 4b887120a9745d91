"""Bringing back what entities were: which services are called for it, and what came of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from agent_gate.model.bounds import HOME_SERVICE_S
from agent_gate.model.call import BoundCall
from agent_gate.model.codec import canonical
from agent_gate.model.errors import ToolError
from agent_gate.model.tool import Json
from agent_gate.ports.tools import Moved
from agent_gate.services.home_assistant.commands import SendCommand
from agent_gate.services.home_assistant.faults import Refused, Unreachable
from agent_gate.services.home_assistant.home import Entity, Home
from agent_gate.services.home_assistant.restorable import INVERSE, NOT_BY_SCENE, Moment
from agent_gate.tools.home_assistant.signatures import ServiceCall


@dataclass(frozen=True, slots=True)
class Findings:
    """Findings on what undoing comes to, entity by entity."""

    to_restore: dict[str, Moment] = field(default_factory=dict)
    """The state of each before the call."""
    already: list[str] = field(default_factory=list)
    not_restored: dict[str, str] = field(default_factory=dict)
    """Reason why not."""


@dataclass(frozen=True, slots=True)
class Send:
    """One call of a service that brings entities back."""

    call: ServiceCall
    target: Mapping[str, Json] | None
    data: Mapping[str, Json]


def sends_for(home: Home, findings: Findings) -> tuple[Send, ...]:
    """A scene of the earlier states, and the inverse service for what a scene passes over."""
    by_scene: dict[str, Json] = {}
    by_service: dict[tuple[str, str], list[str]] = {}
    for entity_id, before in sorted(findings.to_restore.items()):
        domain = entity_id.partition(".")[0]
        inverse = INVERSE.get((domain, before.state), "")
        if ("scene", "apply") in home.services and domain not in NOT_BY_SCENE:
            by_scene[entity_id] = before.wanted_from(entity_id, Moment.of(home.entities[entity_id]))
        elif (domain, inverse) in home.services:
            by_service.setdefault((domain, inverse), []).append(entity_id)
        else:
            del findings.to_restore[entity_id]
            findings.not_restored[entity_id] = f"no service of this home leads back to `{before.state}`"
    sends = [
        Send(ServiceCall(*service, tuple(ids)), {"entity_id": ids}, {}) for service, ids in sorted(by_service.items())
    ]
    if by_scene:
        sends.insert(0, Send(ServiceCall("scene", "apply", tuple(by_scene)), None, {"entities": by_scene}))
    return tuple(sends)


@dataclass(frozen=True, slots=True)
class Restoring:
    """One undoing on its way from bind to perform."""

    home: Home
    send: SendCommand
    sends: Sequence[Send]
    findings: Findings
    look_again: Callable[[], Sequence[Send]]
    """Find what would be sent now; ToolError where that is nothing any more."""

    @property
    def signatures(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for send in self.sends for name in send.call.signatures))

    async def keep(self, _: BoundCall) -> bytes:
        """Return how things are now, after that was seen to be what was judged."""
        self._refuse_drift()
        now = {entity_id: Moment.of(self.home.entities[entity_id]).to_json() for entity_id in self.findings.to_restore}
        return canonical({"before": now})

    async def act(self, call: BoundCall) -> Json:
        """All within the time of one service: what then is not answered is unknown, not a tool that hangs."""
        self._refuse_drift()
        result, loop = Result(self.findings), asyncio.get_running_loop()
        ends_at = loop.time() + HOME_SERVICE_S
        for send in self.sends:
            await self._send(call.call_id, send, result, ends_at - loop.time())
        return result.to_json()

    def _refuse_drift(self) -> None:
        try:
            is_same = self.look_again() == self.sends
        except ToolError as error:
            raise Moved(error.problem.detail, suggestion=error.problem.suggestion) from None
        if not is_same:
            raise Moved("what is to be brought back has changed since it was judged; nothing was sent")

    async def _send(self, call_id: str, send: Send, result: Result, timeout_s: float) -> None:
        """Raises what went wrong only where nothing has been sent before: what is done in part is told as that."""
        refusal: Refused | Unreachable | None = None
        changed: dict[str, Entity] = {}
        try:
            called = await self.send(
                call_id,
                send.call.domain,
                send.call.service,
                target=send.target,
                data=send.data,
                timeout_s=timeout_s,
                only_live=True,
            )
            changed = {entity.entity_id: entity for entity in called.changed}
            result.context_ids.append(called.context_id)
        except (Refused, Unreachable) as error:
            refusal = error
        for entity_id in send.call.entities:
            now = changed.get(entity_id) or self.home.entity(entity_id)
            result.add(entity_id, Moment.of(now) if now else None, refusal)
        if refusal and not result.restored and not result.context_ids:
            raise refusal


class Result:
    """The result so far, as it is told to whoever asked; slow devices come back later."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self.context_ids: list[str | None] = []
        self.restored: dict[str, str] = {}
        self._not_yet: dict[str, str] = {}
        self._not_restored = dict(findings.not_restored)

    def add(self, entity_id: str, now: Moment | None, refusal: ToolError | None) -> None:
        before = self._findings.to_restore[entity_id]
        # Nearly the same is as near as a lamp gets; where nothing was sent it may be what it was all the time.
        if now is not None and (now == before if refusal else now.is_like(before)):
            self.restored[entity_id] = now.state
        elif refusal is not None:
            self._not_restored[entity_id] = refusal.problem.detail
        else:
            self._not_yet[entity_id] = f"was {before}, is {now}" if now else "is gone"

    def to_json(self) -> dict[str, Json]:
        told: dict[str, Json] = {
            "restored": self.restored,
            "not_yet": self._not_yet,
            "already_as_before": self._findings.already,
            "not_restored": [{"what": name, "reason": why} for name, why in sorted(self._not_restored.items())],
        }
        context_ids = [context_id for context_id in self.context_ids if context_id]
        return {key: value for key, value in told.items() if value or key == "restored"} | {"context_ids": context_ids}

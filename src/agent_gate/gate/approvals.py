"""The side of people: open questions and their answers, standing grants, and the switch that stops everything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from agent_gate.gate.gate import Gate
from agent_gate.model.approval import Approver, GrantTerms, Question
from agent_gate.model.codec import canonical
from agent_gate.model.committed import Applied
from agent_gate.model.entry import GATE_PROJECT, Draft, Kind
from agent_gate.model.errors import GateError, Problem
from agent_gate.model.grant import Grant
from agent_gate.model.moment import iso
from agent_gate.model.record_people import revoked
from agent_gate.model.work import RevokeGrant, SetStatus, Work
from agent_gate.tools.grants import why_once_only


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    question: Question
    approved_by: tuple[str, ...] = ()
    """People who have agreed so far, where more than one must."""
    unattended: str = ""
    """Says so where the process that holds the call is gone, and what would come of a yes."""


class Successor(Protocol):
    """A process that can go on with a call whose own is gone."""

    async def could_take_over(self, question: Question) -> bool: ...

    async def take_over(self, question: Question) -> bool: ...


class Approvals:
    """Serves every approvers' door; entitlement is checked behind it, identity in front of it."""

    def __init__(self, gate: Gate, successor: Successor | None = None) -> None:
        self._gate, self._ledger, self._successor = gate, gate.ledger, successor

    async def questions(self) -> list[OpenQuestion]:
        """The questions that can still be answered, oldest first."""
        clock = self._gate.clock
        return [
            OpenQuestion(question, approved_by)
            for question, approved_by in await self._ledger.open_questions()
            if question.left_s(clock) > 0
        ]

    async def question(self, call_id: str) -> OpenQuestion | None:
        found = await self.question_alone(call_id)
        return replace(found, unattended=await self.unattended(found.question)) if found else None

    async def question_alone(self, call_id: str) -> OpenQuestion | None:
        """Without a look at the process that holds it."""
        found = await self._ledger.question(call_id)
        if found is None or found[1] is not None or found[0].left_s(self._gate.clock) <= 0:
            return None
        return OpenQuestion(found[0], found[2])

    def why_once_only(self, question: Question) -> str:
        """Say why a yes to it is a yes to this one call alone; empty where it may be given for later ones too."""
        return why_once_only(question, self._gate.tools.declaration)

    async def unattended_calls(self) -> frozenset[str]:
        """Calls of whose question `unattended` has something to say."""
        return await self._ledger.abandoned_calls()

    async def unattended(self, question: Question) -> str:
        """Tell whoever answers that the process that holds the call is gone, and what then; empty where it is there."""
        if await self._ledger.abandoned_by(question.call_id) in (None, self._ledger.instance):
            return ""
        if question.has_run:
            return "The process that keeps what the command wrote is gone: nothing will be written."
        if self._successor and await self._successor.could_take_over(question):
            return "The process that asked is gone. If you allow it, this server performs it."
        until = f"{iso(question.expires_at)[:16]}Z"
        return (
            "The process that asked is gone: nobody is there to perform it. A yes helps only if"
            f" {question.agent_id} makes the same call again before {until}; else it expires."
        )

    async def answer(
        self,
        call_id: str,
        *,
        approve: bool,
        by: Approver,
        nonce: str | None = None,
        note: str = "",
        grant: GrantTerms | None = None,
    ) -> str:
        """Answer, and tell what comes of a yes where the call's process is gone, as `unattended` says it; else nothing.

        Raises GateError where the answer does not count: 6003, 1016, 2002; that is recorded as well.
        """
        found = await self._ledger.question(call_id) if approve else None
        unattended = await self.unattended(found[0]) if found else ""
        await self._gate.answer(call_id, approve=approve, by=by, nonce=nonce, note=note, grant=grant)
        if found and unattended and self._successor and await self._successor.could_take_over(found[0]):
            await self._successor.take_over(found[0])
        return unattended

    async def grants(self) -> Sequence[Grant]:
        """Grants that can still be used."""
        return await self._ledger.grants(self._gate.clock.now())

    async def revoke(self, grant_id: str, by: Approver) -> Grant:
        now = self._gate.clock.now()
        grant = next((one for one in await self.grants() if one.grant_id == grant_id), None)
        if grant is not None:
            draft = revoked(grant, by.id, now, self._gate.ids.salt())
            work = Work(grant.project, (draft,), (RevokeGrant(grant_id, iso(now)),))
            if isinstance(await self._ledger.commit(work), Applied):
                return grant
        raise GateError.of(
            Problem(6003, f"there is no grant `{grant_id[:64]}` in force", "see `agent-gate grants`", "hold")
        )

    async def paused(self) -> bool:
        head = await self._ledger.head(GATE_PROJECT)
        return head is not None and head.status == "paused"

    async def pause(self, by: Approver, reason: str = "") -> bool:
        """Deny everything from now on; whether that is new."""
        return await self._switch("paused", "pause", by, reason)

    async def resume(self, by: Approver, reason: str = "") -> bool:
        return await self._switch("open", "resume", by, reason)

    async def _switch(self, status: str, action: str, by: Approver, reason: str) -> bool:
        async with self._ledger.lock_project(GATE_PROJECT):
            head = await self._ledger.head(GATE_PROJECT)
            if head is None or head.status == status:
                return False
            body = {"action": action, "by": by.id, "salt": self._gate.ids.salt()}
            if reason:
                body["reason"] = reason
            draft = Draft(Kind.PROJECT, iso(self._gate.clock.now()), canonical(body), status=status)
            work = Work(GATE_PROJECT, (draft,), (SetStatus(status),))
            return isinstance(await self._ledger.commit(work), Applied)

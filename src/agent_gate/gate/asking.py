"""Asking people about calls: grants that they gave before, questions that are put, and the wait for an answer."""

from __future__ import annotations

import asyncio
from typing import Any

from agent_gate.gate.progress import Progress, covers
from agent_gate.model.approval import Question
from agent_gate.model.committed import Committed
from agent_gate.model.entry import GATE_PROJECT
from agent_gate.model.errors import Problem
from agent_gate.model.verdict import ASK
from agent_gate.pipeline.admit import closed_problem
from agent_gate.pipeline.hold import Holder, Inquiry, Resolution
from agent_gate.policy.limits import outstanding
from agent_gate.ports.ledger import Ledger
from agent_gate.ports.surroundings import Clock
from agent_gate.ports.tools import Judged


class Asker:
    """Asks on behalf of calls; when the gate closes, nobody is waited for any more."""

    def __init__(self, holder: Holder, ledger: Ledger, clock: Clock) -> None:
        self._holder, self._ledger, self._clock = holder, ledger, clock
        self._waiting: set[asyncio.Task[Any]] = set()
        self._closing = False

    async def may_go_on(self, progress: Progress, judged: Judged) -> bool:
        """True where nobody has to be asked first."""
        verdict = judged.verdict
        if verdict.decision is not ASK or (progress.agreed and covers(progress.question, verdict)):
            return True
        return await self.is_granted(progress, judged)

    async def is_granted(self, progress: Progress, judged: Judged) -> bool:
        """True where a person agreed beforehand; a question that was put waits for its own answer."""
        grant = None if progress.held else await self._holder.granted(judged)
        if grant is not None:
            progress.agree_by(grant, self._clock.now())
        return grant is not None

    async def ask(self, progress: Progress, judged: Judged) -> Question | Committed | Problem:
        """Put a question about the call, unless one is still unanswered; else why it may not be put."""
        if progress.question is None or progress.agreed:
            charges = outstanding(judged.prepared.charges, progress.reserved)
            inquiry = Inquiry(
                judged, charges, claim=progress.claim, earlier=progress.question, started_at=progress.started_at
            )
            asked = await self._holder.ask(inquiry)
            if not isinstance(asked, Question):
                return asked
            progress.question, progress.agreed = asked, False
            progress.reserved += charges
        progress.shown = judged
        return progress.question

    async def ask_about_writes(self, progress: Progress, judged: Judged) -> Question | Committed | Problem:
        """Put a question about what the call's act made ready; what the act counts against is reserved already."""
        asked = await self._holder.ask(Inquiry(judged, (), has_run=True))
        if isinstance(asked, Question):
            progress.question, progress.agreed = asked, False
            progress.shown = judged
        return asked

    async def answer_to(self, progress: Progress, question: Question) -> Resolution | None:
        """Wait for people; None where the gate closes first: the question stays open."""
        progress.tell_impatient()
        progress.release()
        resolution = await self._wait(question)
        if resolution is not None:
            progress.resolution, progress.agreed = resolution, resolution.how == "approved"
        return resolution

    async def _wait(self, question: Question) -> Resolution | None:
        task = asyncio.current_task()
        if self._closing or task is None:
            return None
        self._waiting.add(task)
        try:
            return await self._holder.wait(question)
        except asyncio.CancelledError:
            if self._closing:
                task.uncancel()
                return None
            raise
        finally:
            self._waiting.discard(task)

    async def paused(self) -> Problem | None:
        """The problem with going on after an answer, where the whole gate was paused meanwhile."""
        paused = await self._ledger.status(GATE_PROJECT) == "paused"
        return closed_problem(GATE_PROJECT, "paused") if paused else None

    def close(self) -> None:
        """Let every wait end now; the questions stay open in the ledger."""
        self._closing = True
        for task in self._waiting:
            task.cancel()

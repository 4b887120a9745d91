"""Refusals at the door: counted, and written as one summary entry a second, never one fsync each."""

from __future__ import annotations

import asyncio
from collections import Counter

from agent_gate.model.bounds import REFUSAL_SUMMARY_S
from agent_gate.model.codec import canonical
from agent_gate.model.entry import GATE_PROJECT, Draft, Kind
from agent_gate.model.errors import GateError, Problem
from agent_gate.model.moment import iso
from agent_gate.model.work import Work
from agent_gate.ports.ledger import Append
from agent_gate.ports.surroundings import Clock, Ids

KINDS_MAX = 1_000
"""Different refusals that one summary tells apart; the rest are counted together."""


class RefusalCounts:
    """Counts who was refused and why, until the next summary."""

    def __init__(self, ledger: Append, clock: Clock, ids: Ids, interval_s: float = REFUSAL_SUMMARY_S) -> None:
        self._ledger, self._clock, self._ids, self._interval_s = ledger, clock, ids, interval_s
        self._counts: Counter[tuple[str, str]] = Counter()
        self._writer: asyncio.Task[None] | None = None

    def count(self, agent_id: str, problem: Problem) -> None:
        key = agent_id, problem.name
        self._counts[key if key in self._counts or len(self._counts) < KINDS_MAX else ("…", "others")] += 1
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write_later())

    async def close(self) -> None:
        if self._writer is not None:
            self._writer.cancel()
        await self._write()

    async def _write_later(self) -> None:
        await asyncio.sleep(self._interval_s)
        await self._write()

    async def _write(self) -> None:
        counts, self._counts = self._counts, Counter()
        if not counts:
            return
        refused = [{"agent_id": agent, "count": count, "why": why} for (agent, why), count in sorted(counts.items())]
        body = canonical({"refused": refused, "salt": self._ids.salt()})
        try:
            await self._ledger.commit(Work(GATE_PROJECT, (Draft(Kind.DOOR, iso(self._clock.now()), body),)))
        except GateError:
            self._counts.update(counts)  # said with the next summary, when the ledger can be written again

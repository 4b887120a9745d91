"""Runs: what a step costs beside its tool's own work, in units of A, and how much faster a run is replayed."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from agent_gate import open_gate, run_plan, tool
from agent_gate.gate.gate import Gate
from agent_gate.history.replays import replay_run
from agent_gate.ledger.sqlite.ledger import SqliteLedger
from agent_gate.model.outcome import Outcome
from agent_gate.model.plan import Plan, PlanStep
from agent_gate.system.clock import RandomIds, SystemClock
from bench.figure import Figure, at_least, at_most, median_us
from bench.ledger import append_durations, template_draft

STEPS = 500
ROUNDS = 6
READS = 1_000
POLICY = {
    "rules": [{"pattern": "clock.*", "action": "allow"}],
    "tools": {"fs.read": {"allow_paths": ["./**"]}},
}


@tool("clock.read", effect="read", cost=0, risk="low")
async def read(place: str) -> dict[str, object]:
    """A tool that does nothing, so that only the step is measured."""
    return {"place": place, "reading": 21}


@tool("clock.set", effect="write", cost=0, risk="low")
async def write(place: str) -> dict[str, object]:
    """The same for a step of two entries: what it is about to do, and what it did."""
    return {"place": place, "reading": 21}


def figures(directory: Path) -> Iterator[Figure]:
    yield from asyncio.run(_steps(directory))
    yield asyncio.run(_replay(directory))


async def _steps(directory: Path) -> list[Figure]:
    """Appends and both kinds of step take turns, so that noise from outside meets all of them."""
    template = await template_draft(directory / "steps-template.db")
    append: list[float] = []
    reads: list[float] = []
    writes: list[float] = []
    async with open_gate(POLICY, directory / "steps.db", tools=[read, write], services=()) as gate:
        ledger = SqliteLedger(directory / "steps-appends.db", SystemClock(), RandomIds())
        for number in range(ROUNDS + 1):
            measured = (
                await append_durations(ledger, template, STEPS),
                await _step_durations(gate, "clock.read"),
                await _step_durations(gate, "clock.set"),
            )
            if number:  # the first round warms up the files
                for durations, more in zip((append, reads, writes), measured, strict=True):
                    durations.extend(more)
        await ledger.close()
    unit_a = median_us(append)
    return [
        at_most("a step of a run, two entries", median_us(writes), unit_a, "A", "µs", 2.8),
        at_most("a step of a run, read-only", median_us(reads), unit_a, "A", "µs", 1.8),
    ]


async def _step_durations(gate: Gate, name: str) -> list[float]:
    """From the end of one step to the end of the next."""
    ends: list[float] = []

    def on_step(_: int, __: PlanStep, outcome: Outcome) -> None:
        assert outcome.ok, outcome
        ends.append(time.perf_counter())

    plan = Plan(tuple(PlanStep(name, {"place": "kitchen"}) for _ in range(STEPS)))
    await run_plan(gate, plan, on_step=on_step)
    return [end - start for start, end in pairwise(ends)]


async def _replay(directory: Path) -> Figure:
    """Each replay is a run of its own in the ledger, so its append is part of it."""
    folder = directory / "reads"
    folder.mkdir()
    for number in range(READS):
        (folder / f"page{number}.txt").write_text(f"page {number}\n" * 40)
    plan = Plan(tuple(PlanStep("fs.read", {"path": f"reads/page{number}.txt"}) for number in range(READS)))
    live: list[float] = []
    again: list[float] = []
    async with open_gate(POLICY, directory / "replay.db", working_dir=directory, services=()) as gate:
        assert isinstance(gate.ledger, SqliteLedger)
        for _ in range(3):
            start = time.perf_counter()
            run = await run_plan(gate, plan)
            live.append(time.perf_counter() - start)
            assert run.status == "completed", run.problem or run.outcomes[-1]
            start = time.perf_counter()
            replayed = await replay_run(gate.ledger, run.run_id, clock=gate.clock, ids=gate.ids, find=lambda _: None)
            again.append(time.perf_counter() - start)
            assert not replayed.mismatches, replayed.mismatches[0]
    return at_least(
        f"replay of {READS:,} fs.read", READS / statistics.median(again), READS / statistics.median(live),
        "the live run of the same steps", "1/s", 5,
    )  # fmt: skip

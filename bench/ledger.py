"""The ledger and the gate: unit A, a whole call, many callers, bytes an entry, and verification."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from agent_gate import open_gate, tool
from agent_gate.gate.gate import Gate
from agent_gate.history.verify import verify
from agent_gate.ledger.sqlite.group import INSERT_ENTRY
from agent_gate.ledger.sqlite.ledger import SqliteLedger
from agent_gate.ledger.sqlite.rows import ENTRY_COLUMNS
from agent_gate.model.codec import canonical
from agent_gate.model.entry import Draft, Kind
from agent_gate.model.moment import iso
from agent_gate.model.work import Work
from agent_gate.system.clock import RandomIds, SystemClock
from bench.figure import Figure, at_least, at_most, median_us

CALLS = 1_000
ROUNDS = 3
CALLERS = 64
POLICY = {"rules": [{"pattern": "clock.*", "action": "allow"}]}
ARGUMENTS = {"place": "kitchen"}
RESULT = {"place": "kitchen", "reading": 21}


@tool("clock.read", effect="read", cost=0, risk="low")
async def read(place: str) -> dict[str, object]:
    """A tool that does nothing, so that only the gate is measured."""
    return {"place": place, "reading": 21}


def figures(directory: Path) -> Iterator[Figure]:
    yield from asyncio.run(_measured(directory))
    yield _bytes_per_entry(directory)
    yield _verification(directory)


async def _measured(directory: Path) -> list[Figure]:
    """Rounds of each kind take turns, so that noise from outside meets all of them."""
    template = await template_draft(directory / "template.db")
    bare: list[float] = []
    append: list[float] = []
    call: list[float] = []
    # The first round warms up the files; the others count together.
    async with open_gate(POLICY, directory / "calls.db", tools=[read]) as gate:
        ledger = SqliteLedger(directory / "appends.db", SystemClock(), RandomIds())
        with_driver = _Bare(directory / "bare.db", template)
        for number in range(ROUNDS + 1):
            measured = (
                with_driver.durations(),
                await append_durations(ledger, template, CALLS),
                await _call_durations(gate),
            )
            if number:
                for durations, more in zip((bare, append, call), measured, strict=True):
                    durations.extend(more)
        appends_per_s = await _appends_per_s(ledger, template)
        calls_per_s = await _calls_per_s(gate)
        await ledger.close()
    unit_a = median_us(append)
    return [
        at_most("A: one durable append, one caller", unit_a, median_us(bare), BARE, "µs", 2.5),
        at_most("a read-only call, one caller", median_us(call), unit_a, "A", "µs", 1.5),
        at_least(f"read-only calls, {CALLERS} callers", calls_per_s, appends_per_s, WRITER, "1/s", 0.2),
    ]


BARE = "sqlite3: the same row and indexes, BEGIN, INSERT, COMMIT, WAL, synchronous FULL"
WRITER = f"the writer alone, {CALLERS} callers, the same rows"


async def template_draft(path: Path) -> Draft:
    """The draft of a real call's entry, so that all rows are alike."""
    async with open_gate(POLICY, path, tools=[read]) as gate:
        outcome = await gate.call("clock.read", ARGUMENTS)
        (entry,) = await gate.ledger.entries_of(outcome.call_id)
    assert entry.body is not None
    return Draft(
        Kind(entry.kind), entry.at, entry.body, entry.call_id, None, None, entry.agent_id, entry.tool,
        entry.signature, entry.status,
    )  # fmt: skip


_IDS = RandomIds()


def _draft(template: Draft) -> Draft:
    return Draft(
        template.kind, iso(time.time()), template.body, _IDS.new(), None, None, template.agent_id, template.tool,
        template.signature, template.status,
    )  # fmt: skip


class _Bare:
    """What the driver alone needs for the same row in the same table."""

    def __init__(self, path: Path, template: Draft) -> None:
        asyncio.get_running_loop()
        source = sqlite3.connect(path.with_name("template.db"))
        self._connection = sqlite3.connect(path, isolation_level=None)
        for (statement,) in source.execute("SELECT sql FROM sqlite_master WHERE tbl_name = 'entries' AND sql <> ''"):
            self._connection.execute(statement)
        source.close()
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._template = template
        self._seq = 0

    def durations(self) -> list[float]:
        durations = []
        for _ in range(CALLS):
            self._seq += 1
            draft = _draft(self._template)
            row = (
                "default", self._seq, draft.at, "settled", None, draft.call_id, None, draft.agent_id, draft.tool,
                draft.signature, draft.status, draft.body.decode(), bytes(32), bytes(32), bytes(32),
            )  # fmt: skip
            start = time.perf_counter()
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.execute(INSERT_ENTRY, row)
            self._connection.execute("COMMIT")
            durations.append(time.perf_counter() - start)
        return durations


async def append_durations(ledger: SqliteLedger, template: Draft, times: int) -> list[float]:
    durations = []
    for _ in range(times):
        work = Work("default", (_draft(template),), must_be_open=True)
        start = time.perf_counter()
        await ledger.commit(work)
        durations.append(time.perf_counter() - start)
    return durations


async def _call_durations(gate: Gate) -> list[float]:
    durations = []
    for _ in range(CALLS):
        start = time.perf_counter()
        await gate.call("clock.read", ARGUMENTS)
        durations.append(time.perf_counter() - start)
    return durations


async def _appends_per_s(ledger: SqliteLedger, template: Draft) -> float:
    async def caller() -> None:
        for _ in range(CALLS // 5):
            await ledger.commit(Work("default", (_draft(template),), must_be_open=True))

    return await _per_s(caller)


async def _calls_per_s(gate: Gate) -> float:
    async def caller() -> None:
        for _ in range(CALLS // 5):
            await gate.call("clock.read", ARGUMENTS)

    return await _per_s(caller)


async def _per_s(caller: object) -> float:
    assert callable(caller)
    rates = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        await asyncio.gather(*(caller() for _ in range(CALLERS)))
        rates.append(CALLERS * (CALLS // 5) / (time.perf_counter() - start))
    return sorted(rates)[len(rates) // 2]


def _bytes_per_entry(directory: Path) -> Figure:
    """The database after the calls, less what the arguments and results themselves take."""
    path = directory / "calls.db"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    (count,) = connection.execute("SELECT count(*) FROM entries").fetchone()
    connection.close()
    own = len(canonical(ARGUMENTS)) + len(canonical(RESULT))
    return at_most(
        "bytes of database an entry, indexes included", path.stat().st_size / count - own, 1,
        f"beyond the {own} bytes of its arguments and result", "bytes", 850,  # decision 0022
    )  # fmt: skip


def _verification(directory: Path) -> Figure:
    path = directory / "calls.db"
    connection = sqlite3.connect(path)
    bare_rates, our_rates = [], []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        count, previous = 0, bytes(32)
        for row in connection.execute(f"SELECT {ENTRY_COLUMNS} FROM entries ORDER BY project, seq"):
            body_hash = sha256(row[11].encode()).digest()
            previous = sha256(previous + body_hash).digest()
            count += 1
        bare_rates.append(count / (time.perf_counter() - start))
        start = time.perf_counter()
        report = verify(path)
        our_rates.append(report.entries / (time.perf_counter() - start))
        assert report.ok, report
    connection.close()
    return at_least(
        "entries verified", max(our_rates), max(bare_rates), "reading and hashing the same rows bare", "1/s", 0.3
    )

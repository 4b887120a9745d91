"""The documents' views on a long ledger: what people ask of them takes as long as on a short one."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from agent_gate import open_gate, tool
from agent_gate.ledger.sqlite.ledger import SqliteLedger
from agent_gate.model.committed import Applied
from agent_gate.model.entry import Draft, Kind
from agent_gate.model.moment import iso
from agent_gate.model.work import Work
from agent_gate.system.clock import RandomIds, SystemClock
from bench.figure import Figure, at_most, microseconds_each

SHORT, LONG = 3_000, 300_000
FEW_CALLS, MANY_CALLS = 200, 20_000
ENTRIES_A_WORK = 1_000
START = 1_800_000_000.0
POLICY = {"rules": [{"pattern": "lamp.*", "action": "allow"}]}
NEWEST = "SELECT * FROM audit_log ORDER BY timestamp DESC LIMIT 10"


@tool("lamp.read", effect="read", cost=0, risk="low")
async def read(room: str) -> dict[str, object]:
    return {"room": room, "is": "on"}


@tool("lamp.set", effect="write", cost=0, risk="low")
async def write(room: str) -> dict[str, object]:
    return {"room": room, "is": "on"}


@tool("lamp.break", effect="write", cost=0, risk="low")
async def fail(room: str) -> None:
    raise RuntimeError(f"no lamp in the {room}")


def figures(directory: Path) -> Iterator[Figure]:
    templates = asyncio.run(_templates(directory / "views-template.db"))
    entries_a_round, calls_a_round = sum(map(len, templates)), len(templates)
    short, long, few, many = (
        asyncio.run(_filled(directory / f"views-{number}.db", templates, rounds))
        for number, rounds in enumerate(
            (
                SHORT // entries_a_round,
                LONG // entries_a_round,
                FEW_CALLS // calls_a_round,
                MANY_CALLS // calls_a_round,
            )
        )
    )
    yield at_most(
        f"newest 10 of audit_log, {LONG:,} entries", _slowest_us(long, [NEWEST]), _slowest_us(short, [NEWEST]),
        f"the same of {SHORT:,}", "µs", 5,
    )  # fmt: skip
    yield at_most(
        f"slowest question to a view, {MANY_CALLS:,} calls", _slowest_us(many, _questions(many)),
        _slowest_us(few, _questions(few)), f"the same of {FEW_CALLS:,}", "µs", 5,
    )  # fmt: skip


async def _templates(path: Path) -> list[list[Draft]]:
    """The drafts of real calls: one entry for what only looks, two for what acts or fails."""
    made = []
    async with open_gate(POLICY, path, tools=[read, write, fail]) as gate:
        for name in ("lamp.read", "lamp.set", "lamp.break"):
            outcome = await gate.call(name, room="hall")
            made.append(
                [
                    Draft(
                        Kind(entry.kind), entry.at, entry.body or b"", entry.call_id, None, None, entry.agent_id,
                        entry.tool, entry.signature, entry.status,
                    )
                    for entry in await gate.ledger.entries_of(outcome.call_id)
                ]
            )  # fmt: skip
    return made


async def _filled(path: Path, templates: Sequence[Sequence[Draft]], rounds: int) -> Path:
    """Every second call has a request id of its own."""
    ids, numbers = RandomIds(), itertools.count()
    ledger = SqliteLedger(path, SystemClock(), ids)
    drafts: list[Draft] = []
    for _ in range(rounds):
        for call in templates:
            call_id, number = ids.new(), next(numbers)
            names = {"call_id": call_id, "request_id": f"request-{number}" if number % 2 else None}
            drafts += [replace(draft, at=iso(START + number / 10), **names) for draft in call]
        if len(drafts) >= ENTRIES_A_WORK:
            await _write(ledger, drafts)
    await _write(ledger, drafts)
    await ledger.close()
    return path


async def _write(ledger: SqliteLedger, drafts: list[Draft]) -> None:
    if drafts:
        assert isinstance(await ledger.commit(Work("default", tuple(drafts))), Applied)
        drafts.clear()


def _questions(path: Path) -> list[str]:
    """By each thing that a call is known by; the row that is looked for is in the middle."""
    with closing(sqlite3.connect(path)) as connection:
        middle = "SELECT request_id, timestamp FROM audit_log WHERE id >= (SELECT max(id) / 2 FROM entries) LIMIT 1"
        request_id, at = connection.execute(middle).fetchone()
        (call_id,) = connection.execute(
            "SELECT call_id FROM tool_results WHERE ended_at >= ? LIMIT 1", (at,)
        ).fetchone()
    return [
        NEWEST,
        f"SELECT * FROM audit_log WHERE request_id = '{request_id}'",
        f"SELECT * FROM audit_log WHERE timestamp >= '{at}' ORDER BY timestamp LIMIT 10",
        "SELECT * FROM audit_log WHERE tool_name = 'lamp.set' ORDER BY timestamp DESC LIMIT 10",
        "SELECT * FROM audit_log WHERE tool_name = 'nobody.asked'",
        f"SELECT * FROM tool_calls JOIN tool_results USING (call_id) WHERE call_id = '{call_id}'",
        "SELECT * FROM tool_calls WHERE tool_name = 'lamp.break' LIMIT 10",
        "SELECT * FROM tool_results ORDER BY ended_at DESC LIMIT 10",
    ]


def _slowest_us(path: Path, questions: Sequence[str]) -> float:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        ask = partial(_ask, connection)
        return max(microseconds_each(partial(ask, question), 200) for question in questions)


def _ask(connection: sqlite3.Connection, question: str) -> list[object]:
    return connection.execute(question).fetchall()

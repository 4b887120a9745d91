"""Gates for tests: a clock that is moved by hand, ids in order, tools that note what they did, people on call."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from textwrap import dedent
from typing import Any, TypeVar

from agent_gate import Agent, Approver, Gate, Outcome, open_gate, tool, transition
from agent_gate.gate.bounds import GateBounds
from agent_gate.history.projects import Projects
from agent_gate.ledger.sqlite.bounds import LedgerBounds
from agent_gate.ledger.sqlite.storage import SqliteStorage
from agent_gate.model.approval import Question
from agent_gate.model.outcome import Status
from agent_gate.model.tool import Json

T = TypeVar("T")
Tool = Callable[..., Any]
Row = dict[str, Any]

NOON = 1_772_625_600.0
"""Wednesday, 4 March 2026, 12:00 in UTC."""
QUICK_GATE = GateBounds(join_poll_s=0.005)
"""GateBounds of a gate that looks at a test's clock all the time."""
QUICK_SUMMARY = replace(QUICK_GATE, refusal_summary_s=0.005)
"""Likewise, and refusals are written down at once."""
QUICK_LEDGER = LedgerBounds(answer_poll_s=0.005)
"""LedgerBounds of one that looks all the time for what other processes wrote."""
PATIENCE_S = 20.0
"""How long a test waits for what must happen at once, on a machine that may be busy."""

ALLOW_ALL: Mapping[str, Json] = {"rules": [{"pattern": "*", "action": "allow"}]}
ASK_ALL: Mapping[str, Json] = {"rules": [{"pattern": "*", "action": "ask"}]}
ANNA, BOB = Approver("anna", ("admin",)), Approver("bob", ("operator",))


class HandClock:
    """Time that only passes when a test says so."""

    def __init__(self, now: float = NOON) -> None:
        self._now, self._monotonic = now, 1_000.0

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    boot = "the-boot-of-a-test"

    def advance(self, seconds: float) -> None:
        self._now += seconds
        self._monotonic += seconds

    def set(self, now: float) -> None:
        self._now = now


class CountedIds:
    """Ids in the order in which they were made; each maker has its own, in whichever process."""

    _makers = itertools.count()

    def __init__(self) -> None:
        self._maker = f"{os.getpid():08}{next(self._makers):06}"
        self._next = itertools.count()

    def new(self) -> str:
        return f"{self._maker}{next(self._next):012}"

    def salt(self) -> str:
        return f"{self._maker}{next(self._next):08}"


class People:
    """A messenger that keeps what it was told, for a test to wait on."""

    def __init__(self) -> None:
        self.asked: list[Question] = []
        self.ended: list[tuple[str, str, str]] = []
        """(call id, how, by whom)"""
        self._news = asyncio.Condition()

    async def ask(self, question: Question) -> None:
        async with self._news:
            self.asked.append(question)
            self._news.notify_all()

    async def resolved(self, question: Question, resolution: str, by: str) -> None:
        async with self._news:
            self.ended.append((question.call_id, resolution, by))
            self._news.notify_all()

    async def question(self, number: int = 1) -> Question:
        """The question that was put as the `number`-th."""
        async with asyncio.timeout(PATIENCE_S), self._news:
            await self._news.wait_for(lambda: len(self.asked) >= number)
            return self.asked[number - 1]


async def soon(awaitable: Awaitable[T]) -> T:
    return await asyncio.wait_for(awaitable, PATIENCE_S)


async def until(holds: Callable[[], Any]) -> None:
    """Until a condition holds that nothing announces."""
    async with asyncio.timeout(PATIENCE_S):
        while not holds():  # noqa: ASYNC110 -- what is waited for is another connection's commit
            await asyncio.sleep(0.002)


@asynccontextmanager
async def a_gate(
    directory: Path,
    policy: Any = ALLOW_ALL,
    *tools: Any,
    clock: HandClock | None = None,
    people: People | None = None,
    approvers: Sequence[Approver] = (ANNA, BOB),
    name: str = "gate.db",
    gate_bounds: GateBounds = QUICK_GATE,
    ledger_bounds: LedgerBounds = QUICK_LEDGER,
    **options: Any,
) -> AsyncIterator[Gate]:
    """A gate whose clock is the test's, and that looks at it all the time."""
    async with open_gate(
        policy,
        directory / name,
        tools=tools,
        clock=clock or HandClock(),
        ids=CountedIds(),
        notifier=people,
        approvers=approvers,
        storage=partial(SqliteStorage, bounds=ledger_bounds),
        bounds=gate_bounds,
        **options,
    ) as gate:
        yield gate


async def pending(gate: Gate, tool_name: str, args: Mapping[str, Json] | None = None, **options: Any) -> Question:
    """Make a call that is held, and return the question about it."""
    outcome = await gate.call(tool_name, args, wait=False, **options)
    assert outcome.status is Status.PENDING_APPROVAL, outcome
    found = await gate.ledger.question(outcome.call_id)
    assert found is not None
    return found[0]


async def approve(gate: Gate, question: Question, by: Approver = ANNA) -> None:
    await gate.answer(question.call_id, approve=True, by=by, nonce=question.nonce)


async def deny(gate: Gate, question: Question, by: Approver = ANNA) -> None:
    await gate.answer(question.call_id, approve=False, by=by, nonce=question.nonce)


async def outcome_of(gate: Gate, question: Question) -> Outcome:
    outcome = await soon(gate.result(question.call_id))
    assert outcome is not None
    return outcome


def projects(gate: Gate) -> Projects:
    return Projects(gate.ledger, gate.clock, gate.ids, "test")


def code_of(outcome: Outcome) -> int | None:
    return outcome.error.code if outcome.error else None


def sender(acts: list[str], name: str = "mail.send", **declared: Any) -> Tool:
    """A tool with effect `write` that notes what it did."""

    @tool(name, **{"effect": "write", "risk": "medium", "cost": 1, **declared})
    async def send(text: str = "") -> Json:
        acts.append(text)
        return {"sent": text}

    return send


def reader(acts: list[str], name: str = "note.read", **declared: Any) -> Tool:
    """A tool with effect `read` that notes that it was asked."""

    @tool(name, **{"effect": "read", "risk": "low", "cost": 0, **declared})
    async def read(text: str = "") -> Json:
        acts.append(text)
        return {"read": text}

    return read


def counter(name: str = "counter.add", **declared: Any) -> Tool:
    """A pure tool that adds to `n`."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": False}

    @transition(name, schema=schema, **declared)
    def add(inputs: dict[str, Json], state: Json) -> tuple[Json, str]:
        state["n"] = state.get("n", 0) + inputs.get("n", 1)
        return state, f"now {state['n']}"

    return add


def rows(gate: Gate, sql: str, *values: object) -> list[Row]:
    """What any SQLite client sees."""
    with closing(sqlite3.connect(f"file:{_db(gate)}?mode=ro", uri=True)) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute(sql, values)]


def entries(gate: Gate, *kinds: str) -> list[Row]:
    """The facts of all projects in the order in which they were written, bodies as values."""
    found = rows(gate, "SELECT * FROM entries ORDER BY id")
    for row in found:
        row["body"] = json.loads(row["body"])
    return [row for row in found if not kinds or row["kind"] in kinds]


def kinds_of(gate: Gate, call_id: str) -> list[str]:
    return [row["kind"] for row in entries(gate) if row["call_id"] == call_id]


def stored_bytes(gate: Gate) -> bytes:
    """Everything that the ledger keeps on disk, its log and its companions included.

    Not SQLite's shared memory, which every reader writes to and which is made anew at each start.
    """
    db = _db(gate)
    files = [*db.parent.glob(f"{db.name}*"), *db.parent.glob(f"{db.name}.d/*")]
    kept = (path for path in sorted(files) if path.is_file() and not path.name.endswith("-shm"))
    return b"".join(path.read_bytes() for path in kept)


def _db(gate: Gate) -> Path:
    files = getattr(gate.ledger, "files", None)
    assert files is not None
    path = files.db
    assert isinstance(path, Path)
    return path


def run_elsewhere(directory: Path, program: str) -> None:
    """Run `main` of a program in a process of its own, which may end as it likes."""
    opening = "import asyncio, os, sys; from pathlib import Path; from tests.gates import *; from agent_gate import *"
    code = f"{opening}\ndirectory = Path(sys.argv[1])\n{dedent(program)}\nasyncio.run(main())"
    root = Path(__file__).parent.parent
    ended = subprocess.run(
        [sys.executable, "-c", code, str(directory)], cwd=root, timeout=60, capture_output=True, text=True, check=False
    )
    assert "Traceback" not in ended.stderr, ended.stderr


def agent(id: str = "bot", **fields: Any) -> Agent:
    return Agent(id, **fields)

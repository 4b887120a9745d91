"""The open questions at one moment: how many there are, the first of them, and a mark that changes when they do."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

import orjson

from agent_gate.ledger.sqlite.deadlines import OPEN, values_of
from agent_gate.ledger.sqlite.reader import one_moment, row_of, rows_of
from agent_gate.ledger.sqlite.rows import question_of
from agent_gate.model.approval import Question
from agent_gate.model.codec import sha256_hex
from agent_gate.model.entry import GATE_PROJECT
from agent_gate.model.limits import SHOWN_CHARS_MAX
from agent_gate.ports import Clock


@dataclass(frozen=True, slots=True)
class Mark:
    """Two that are equal stand for the same inbox."""

    count: int
    paused: bool
    digest: str


def mark(reader: sqlite3.Connection, clock: Clock) -> Mark:
    with one_moment(reader):
        # Ids sort by time, so the sum of what each says is the same for the same questions.
        rows = list(
            rows_of(
                reader,
                f"SELECT call_id, nonce, approved_by FROM pending_requests WHERE {OPEN} ORDER BY call_id",  # noqa: S608
                *values_of(clock),
            )
        )
        paused = is_paused(reader)
    return Mark(len(rows), paused, sha256_hex(orjson.dumps([rows, paused])))


def is_paused(reader: sqlite3.Connection) -> bool:
    row = row_of(reader, "SELECT status FROM heads WHERE project = ?", GATE_PROJECT)
    return row is not None and row[0] == "paused"


def first_questions(reader: sqlite3.Connection, clock: Clock, limit: int) -> list[tuple[Question, tuple[str, ...]]]:
    """The oldest open questions, and who has approved each so far.

    For a list: they come without their arguments and with the beginning of their first signature, because a hundred
    calls may be a hundred megabytes.
    """
    rows = rows_of(
        reader,
        "SELECT json_set(p.question, '$.args', json('{}'),"  # noqa: S608
        " '$.signatures', json_array(substr(p.question ->> '$.signatures[0]', 1, ?))), p.approved_by"
        f" FROM (SELECT call_id, created_at FROM pending_requests WHERE {OPEN} ORDER BY created_at, call_id LIMIT ?) o"
        " JOIN pending_requests p ON p.call_id = o.call_id ORDER BY o.created_at, o.call_id",
        SHOWN_CHARS_MAX + 1,
        *values_of(clock),
        limit,
    )
    return [(question_of(question), tuple(orjson.loads(approved_by))) for question, approved_by in rows]


def resolution(reader: sqlite3.Connection, call_id: str) -> str | None:
    """How a question ended whose call has no outcome yet."""
    row = row_of(reader, "SELECT resolution FROM pending_requests WHERE call_id = ?", call_id)
    return row[0] if row else None


def count_open(reader: sqlite3.Connection, clock: Clock) -> int:
    return int(row_of(reader, f"SELECT count(*) FROM pending_requests WHERE {OPEN}", *values_of(clock))[0])  # noqa: S608


def count_waiting_results(reader: sqlite3.Connection) -> int:
    """Outcomes that their agents have not fetched yet."""
    return int(row_of(reader, "SELECT count(*) FROM waiting_results")[0])

"""Open questions whole, as many as fit into one answer."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

import orjson

from agent_gate.ledger.sqlite.deadlines import OPEN, values_of
from agent_gate.ledger.sqlite.reader import one_moment, row_of, rows_of
from agent_gate.ledger.sqlite.rows import question_of
from agent_gate.model.approval import Question
from agent_gate.ports import Clock


@dataclass(frozen=True, slots=True)
class OpenQuestions:
    first: list[tuple[Question, tuple[str, ...]]]
    """The oldest, and who has approved each so far."""
    total: int


def open_questions(
    reader: sqlite3.Connection, clock: Clock, limit: int, bytes_max: int, agent: str | None = None
) -> OpenQuestions:
    """All of them, or those about one agent's calls; at least one, however large."""
    wanted, values = OPEN, tuple[object, ...](values_of(clock))
    if agent is not None:
        wanted, values = f"{OPEN} AND agent_id = ?", (*values, agent)
    first: list[tuple[Question, tuple[str, ...]]] = []
    with one_moment(reader):
        total = row_of(reader, f"SELECT count(*) FROM pending_requests WHERE {wanted}", *values)[0]  # noqa: S608
        rows = rows_of(
            reader,
            "SELECT p.question, p.approved_by"  # noqa: S608 -- the order is found without reading the questions
            f" FROM (SELECT call_id, created_at FROM pending_requests WHERE {wanted} ORDER BY created_at, call_id"
            " LIMIT ?) o JOIN pending_requests p ON p.call_id = o.call_id ORDER BY o.created_at, o.call_id",
            *values,
            limit,
        )
        for question, approved_by in rows:
            bytes_max -= len(question)
            if first and bytes_max < 0:
                break
            first.append((question_of(question), tuple(orjson.loads(approved_by))))
    return OpenQuestions(first, total)

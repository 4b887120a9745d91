"""Work that processes which are gone left open: calls in doubt, runs without an end, effects and questions."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from agent_gate.ledger.files import LedgerFiles
from agent_gate.ledger.sqlite.abandoned import abandoned_questions
from agent_gate.ledger.sqlite.broken_off import how_it_ended
from agent_gate.ledger.sqlite.locks import is_gone
from agent_gate.model.codec import canonical
from agent_gate.model.entry import Draft, Kind
from agent_gate.model.errors import Problem
from agent_gate.model.moment import iso
from agent_gate.model.work import Close, EndEffect, LeaveResult, Unhold, Work
from agent_gate.ports.surroundings import Clock
from agent_gate.ports.tools import FinishCommit

_SETTLED = Kind.SETTLED
_CUT_OFF = Problem(2007, "the process ended before the run did", "see its steps, and run what is missing again")


def owed_work(
    connection: sqlite3.Connection,
    files: LedgerFiles,
    own: str,
    live: Collection[str],
    clock: Clock,
    salt: Callable[[], str],
    finish: FinishCommit | None = None,
) -> list[Work]:
    """Entries that tell the truth about open work; call it under the writer lock.

    Other processes' work counts only when their lock can be taken; our own only when nobody here works on it.
    `finish` brings a commit to files that was left half-way to its end; without it, such a call stays open.
    """
    gone, now = _GoneInstances(files, own), clock.now()
    ended = [
        *_calls_in_doubt(connection, gone, live, now, salt, finish),
        *abandoned_questions(connection, lambda instance: instance != own and instance in gone, clock, salt),
    ]
    return [
        *ended,
        *_unfinished_runs(connection, gone, live, now, salt, ended),
        *_lost_effects(connection, gone, live, now, salt),
    ]


class _GoneInstances:
    """Asks the file system once for each instance."""

    def __init__(self, files: LedgerFiles, own: str) -> None:
        self._files = files
        self._known: dict[str, bool] = {own: True}

    def __contains__(self, instance: str) -> bool:
        if instance not in self._known:
            self._known[instance] = is_gone(self._files, instance)
        return self._known[instance]


def _calls_in_doubt(
    connection: sqlite3.Connection,
    gone: _GoneInstances,
    live: Collection[str],
    now: float,
    salt: Callable[[], str],
    finish: FinishCommit | None,
) -> Iterator[Work]:
    rows = connection.execute(
        "SELECT o.id, o.instance, e.project, e.run_id, e.request_id, e.agent_id, e.tool, e.signature, e.at,"
        " e.body ->> '$.input_hash', e.body ->> '$.decision', e.body ->> '$.step_index', e.body ->> '$.door',"
        " e.body ->> '$.resources.writes', (SELECT f.body ->> '$.started_at' FROM entries f"
        " WHERE f.call_id = o.id AND f.body ->> '$.started_at' IS NOT NULL ORDER BY f.seq LIMIT 1)"
        # In this order: without statistics SQLite would walk all entries and look for open ones.
        " FROM open_work o CROSS JOIN entries e ON e.call_id = o.id AND e.kind = 'performing' WHERE o.kind = 'call'"
    ).fetchall()
    for call_id, instance, project, run_id, request_id, agent_id, tool, signature, at, *recorded in rows:
        if instance not in gone or call_id in live:
            continue
        input_hash, decision, step_index, door, writes, started_at = recorded
        ended = how_it_ended(connection, call_id, writes, finish)
        if ended is None:
            continue
        body = {
            "decision": decision,
            "input_hash": input_hash,
            "salt": salt(),
            "signatures": signature.split("\n") if signature else [],
            "started_at": started_at or at,
            **ended.fields,
        }
        if step_index is not None:
            body["step_index"] = int(step_index)
        draft = Draft(
            Kind.SETTLED,
            iso(now),
            canonical(body),
            call_id,
            run_id,
            request_id,
            agent_id,
            tool,
            signature,
            ended.status,
        )
        left = (LeaveResult(agent_id, call_id, request_id, draft.at),) if door else ()
        yield Work(project, (draft,), (Close(call_id), Unhold(call_id), *left))


def _unfinished_runs(
    connection: sqlite3.Connection,
    gone: _GoneInstances,
    live: Collection[str],
    now: float,
    salt: Callable[[], str],
    ended: Sequence[Work],
) -> Iterator[Work]:
    """`ended` are the calls that are settled in the same breath: they count too."""
    just_settled = [(draft.run_id, draft.status) for work in ended for draft in work.entries if draft.kind is _SETTLED]
    rows = connection.execute("SELECT id, instance, project FROM open_work WHERE kind = 'run'").fetchall()
    for run_id, instance, project in rows:
        if instance not in gone or run_id in live:
            continue
        settled = connection.execute("SELECT status FROM entries WHERE run_id = ? AND kind = 'settled'", (run_id,))
        statuses = [status for (status,) in settled]
        statuses += [status for run, status in just_settled if run == run_id]
        body: dict[str, Any] = {
            "completed_steps": statuses.count("success"),
            "denied_steps": statuses.count("denied") + statuses.count("expired"),
            "failed_steps": statuses.count("error") + statuses.count("unknown"),
        }
        body |= {"error": _CUT_OFF.to_json(), "salt": salt()}
        draft = Draft(Kind.RUN, iso(now), canonical(body), run_id=run_id, status="failed")
        yield Work(project, (draft,), (Close(run_id),))


def _lost_effects(
    connection: sqlite3.Connection, gone: _GoneInstances, live: Collection[str], now: float, salt: Callable[[], str]
) -> Iterator[Work]:
    rows = connection.execute("SELECT effect_id, project, call_id, tool, instance FROM outbox").fetchall()
    for effect_id, project, call_id, tool, instance in rows:
        if instance not in gone or effect_id in live:
            continue
        body = {
            "effect_id": effect_id,
            "error": Problem(2007, "the process ended before the effect reported; it is not run again").to_json(),
            "salt": salt(),
        }
        draft = Draft(Kind.EFFECT, iso(now), canonical(body), call_id=call_id, tool=tool, status="unknown")
        yield Work(project, (draft,), (EndEffect(effect_id),))

"""Questions whose process is gone: settled once nothing can come of them any more."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from agent_gate.ledger.sqlite.backing import Answers, answers
from agent_gate.model.charge import Charge
from agent_gate.model.codec import canonical
from agent_gate.model.entry import Draft, Kind
from agent_gate.model.errors import Problem
from agent_gate.model.moment import iso
from agent_gate.model.record import RESERVED_WINDOW
from agent_gate.model.work import Change, LeaveResult, Release, Resolve, Unhold, Work
from agent_gate.ports.surroundings import Clock

_PENDING = (
    "SELECT call_id, instance, project, agent_id, tool_name, expires_at, boot, ends_at, nonce, approvers_required"
    " FROM pending_requests WHERE question IS NOT NULL AND call_id NOT IN (SELECT id FROM open_work)"
)
"""Questions without those whose call is being performed: that is a call in doubt, and no question any more."""


def abandoned_questions(
    connection: sqlite3.Connection, is_gone: Callable[[str], bool], clock: Clock, salt: Callable[[], str]
) -> Iterator[Work]:
    """One that was answered with no, or whose deadline has passed, ends here.

    Any other waits for the same call to be made again.
    """
    for row in connection.execute(_PENDING).fetchall():
        question = _Question(*(*row, answers(connection, row[0], *row[-2:])))
        over = question.resolution in ("denied", "withdrawn", "expired") or question.is_late(clock)
        held = _Held.of(connection, question.call_id) if over and is_gone(question.instance) else None
        if held is not None:
            yield _ending(question, held, clock.now(), salt)


@dataclass(frozen=True, slots=True)
class _Question:
    call_id: str
    instance: str
    project: str
    agent_id: str
    tool: str
    expires_at: str
    boot: str | None
    ends_at: float
    nonce: str
    approvers_required: int
    answers: Answers

    @property
    def resolution(self) -> str | None:
        return self.answers[0]

    def is_late(self, clock: Clock) -> bool:
        return self.ends_at <= clock.monotonic() if self.boot == clock.boot else self.expires_at <= iso(clock.now())

    @property
    def problem(self) -> Problem:
        match self.resolution:
            case "denied":
                return Problem(1015, "a person said no", "ask them why", "hold")
            case "withdrawn":
                return Problem(1020, "the call was withdrawn before anybody answered", stage="hold")
            case "approved":
                by = ", ".join(self.answers[1])
                detail = f"`{by}` agreed, but the process that held the call was gone"
                return Problem(1016, detail, "make the call again", "hold")
            case _:
                return Problem(1016, "nobody answered in time", "make the call again when somebody is there", "hold")


@dataclass(frozen=True, slots=True)
class _Held:
    """The call, by the entries that put the question."""

    run_id: str | None
    request_id: str | None
    body: Mapping[str, Any]
    reserved: tuple[Charge, ...]

    @classmethod
    def of(cls, connection: sqlite3.Connection, call_id: str) -> _Held | None:
        """None where no entry tells of the question."""
        rows = connection.execute(
            "SELECT run_id, request_id, body FROM entries WHERE call_id = ? AND kind = 'held' ORDER BY seq", (call_id,)
        ).fetchall()
        if not rows:
            return None
        bodies: list[dict[str, Any]] = [orjson.loads(body) if body else {} for _, _, body in rows]
        reserved = tuple(
            Charge(scope, bucket, RESERVED_WINDOW, amount, None, 1012)
            for body in bodies
            for scope, bucket, amount in body.get("reserved", ())
        )
        run_id, request_id, _ = rows[0]
        return cls(run_id, request_id, bodies[0], reserved)

    def kept(self, *names: str) -> dict[str, Any]:
        return {name: self.body[name] for name in names if name in self.body}


def _ending(question: _Question, held: _Held, now: float, salt: Callable[[], str]) -> Work:
    at, problem = iso(now), question.problem
    said: dict[str, Any] = {
        **held.kept("input_hash", "resources", "signatures", "started_at", "step_index"),
        "decision": "ask",
        "error": problem.to_json(),
        "resolution": question.resolution or "expired",
        "salt": salt(),
    }
    settled = _draft(Kind.SETTLED, question, held, at, said, "expired" if problem.code == 1016 else "denied")
    left: tuple[LeaveResult, ...] = ()
    if "door" in held.body:
        left = (LeaveResult(question.agent_id, question.call_id, held.request_id, at),)
    ends: tuple[Change, ...] = (*map(Release, held.reserved), Unhold(question.call_id), *left)
    if question.resolution is not None:
        return Work(question.project, (settled,), ends)
    answer: dict[str, Any] = {
        **held.kept("bound_hash", "nonce", "signatures"),
        "resolution": "expired",
        "resolved_at": at,
        "resolved_by": "",
        "salt": salt(),
    }
    return Work(
        question.project,
        (_draft(Kind.ANSWERED, question, held, at, answer, "expired"), settled),
        (Resolve(question.call_id, question.nonce, now, "expired"), *ends),
    )


def _draft(kind: Kind, question: _Question, held: _Held, at: str, body: Mapping[str, Any], status: str) -> Draft:
    return Draft(
        kind,
        at,
        canonical(body),
        question.call_id,
        held.run_id,
        held.request_id,
        question.agent_id,
        question.tool,
        "\n".join(body["signatures"]) if "signatures" in body else None,
        status,
    )

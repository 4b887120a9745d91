"""Rows that decisions read, held against the entries behind them: what no entry backs does not count."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import orjson

from agent_gate.ledger.chain import header_bytes, link
from agent_gate.model.codec import canonical
from agent_gate.model.grant import Grant

_COLUMNS = (
    "project, seq, at, kind, run_id, call_id, request_id, agent_id, tool, status, body, body_hash, prev_hash, hash"
)
_OF_GRANT = "FROM entries WHERE kind = 'grant' AND body ->> '$.grant_id' = ?"
OF_GRANT = f"SELECT {_COLUMNS} {_OF_GRANT} AND status <> 'used' ORDER BY id"
USES = f"SELECT coalesce(sum(coalesce(body ->> '$.uses', 1)), 0) {_OF_GRANT} AND status = 'used'"
OF_CALL = f"SELECT {_COLUMNS} FROM entries WHERE call_id = ? AND kind = ? ORDER BY seq"  # noqa: S608
MADE = f"SELECT {_COLUMNS} FROM entries WHERE project = ? AND kind = 'project' ORDER BY seq LIMIT 1"  # noqa: S608
CLAIM = (
    "SELECT call_id, body ->> '$.work.claim' FROM entries"
    " WHERE coalesce(request_id, call_id) = ? AND agent_id = ? AND request_id IS NOT NULL"
    " AND body ->> '$.work.claim' IS NOT NULL ORDER BY id LIMIT 1"
)
QUOTA = "run:"
"""The scopes of single runs: they end with the run."""
TOTALS = "SELECT scope, sum(amount) FROM counters WHERE project = ? AND scope NOT GLOB 'run:*' GROUP BY scope"
HAS_TOTALS = "instr(body, '\"totals\":{') > 0 AND body -> '$.work.totals' IS NOT NULL"
"""Word for word as the index has it: few bodies have the word, and only those are parsed."""
LAST_TOTALS = (
    f"SELECT (SELECT body FROM entries WHERE project = ? AND {HAS_TOTALS} ORDER BY seq DESC LIMIT 1),"  # noqa: S608
    " (SELECT coalesce(sum(amount), 0) FROM counters WHERE project = ? AND scope = ?)"
)
COUNTING_ERROR_MAX = 1e-6


@dataclass(frozen=True, slots=True)
class Told:
    """An entry that is what its own hash says."""

    project: str
    at: str
    status: str | None
    body: Mapping[str, Any]


def told(connection: sqlite3.Connection, sql: str, *values: object) -> Iterator[Told]:
    """The entries that a look-up finds; one that was changed or erased tells nothing."""
    for row in connection.execute(sql, values).fetchall():
        (
            project, seq, at, kind, run_id, call_id, request_id, agent_id, tool, status, body,
            body_hash, prev_hash, hash,
        ) = row  # fmt: skip
        if body is None or sha256(body.encode()).digest() != body_hash:
            continue
        header = header_bytes(project, seq, at, kind, run_id, call_id, request_id, agent_id, tool, status, body_hash)
        if link(prev_hash, header) == hash:
            yield Told(project, at, status, orjson.loads(body))


def totals(connection: sqlite3.Connection, project: str) -> dict[str, float]:
    """Sum up what the project counts now, without the quotas of runs."""
    return dict(connection.execute(TOTALS, (project,)).fetchall())


def with_work(body: bytes, fields: Mapping[str, Any]) -> bytes:
    """The body with one more field, which sorts behind all others."""
    assert body.endswith(b"}"), "a body is an object, and has at least its salt"
    return body[:-1] + b',"work":' + canonical(fields) + b"}"


def counted(connection: sqlite3.Connection, project: str, scope: str) -> bool:
    """Tell whether all that is counted under a scope is what the last entry that changed a count says."""
    body, total = connection.execute(LAST_TOTALS, (project, project, scope)).fetchone()
    told: Mapping[str, Any] = {} if body is None else orjson.loads(body).get("work", {}).get("totals", {})
    return scope.startswith(QUOTA) or body is None or abs(told.get(scope, 0.0) - total) <= COUNTING_ERROR_MAX


def is_backed(connection: sqlite3.Connection, grant: Grant) -> bool:
    """Tell whether by the entries a person gave this very grant, none took it back, and it is not used up."""
    status = status_of(connection, grant)
    return status is not None and status[1] is None and status[0] >= grant.uses_left > 0


def status_of(connection: sqlite3.Connection, grant: Grant) -> tuple[int, str | None] | None:
    """Tell how many uses are left and when it was revoked, by the entries; None where nobody gave this grant."""
    given, revoked_at = False, None
    for entry in told(connection, OF_GRANT, grant.grant_id):
        if entry.status == "given":
            given = given or (entry.project == grant.project and _is_told(grant, entry.body))
        else:
            revoked_at = entry.at
    (used,) = connection.execute(USES, (grant.grant_id,)).fetchone()
    return (grant.uses - used, revoked_at) if given else None


def _is_told(grant: Grant, body: Mapping[str, Any]) -> bool:
    """`uses_left` is as it was then."""
    wanted = grant.to_json() | {"key": grant.key, "roles": list(grant.roles), "by": grant.given_by}
    return all(body.get(name) == value for name, value in wanted.items() if name != "uses_left")


def is_as_put(connection: sqlite3.Connection, call_id: str) -> bool:
    """Tell whether the question about a call still is the one that its entry says was put."""
    row = connection.execute("SELECT question, nonce FROM pending_requests WHERE call_id = ?", (call_id,)).fetchone()
    if row is None or row[0] is None:
        return False
    question = orjson.loads(row[0])
    held = [entry.body for entry in told(connection, OF_CALL, call_id, "held") if "args" in entry.body]
    body = next((body for body in reversed(held) if body.get("nonce") == question.get("nonce") == row[1]), None)
    if body is None:
        return False
    if "question" in body.get("work", {}):
        return bool(body["work"]["question"] == sha256(row[0].encode()).hexdigest())
    # As earlier releases told it.
    return all(body[name] == question.get(name) for name in ("bound_hash", "signatures")) and (
        canonical(body["args"]) == canonical(question.get("args"))
    )


Answers = tuple[str | None, tuple[str, ...]]


def answers(connection: sqlite3.Connection, call_id: str, nonce: str, required: int) -> Answers:
    """Tell how a question was answered and who agreed, as the entries say."""
    approvers: list[str] = []
    for entry in told(connection, OF_CALL, call_id, "answered"):
        if entry.body.get("nonce") != nonce:
            continue
        if entry.status != "approved":
            return entry.status, tuple(approvers)
        by = str(entry.body.get("resolved_by", ""))
        if by not in approvers:
            approvers.append(by)
    return "approved" if approvers and len(approvers) >= required else None, tuple(approvers)


def is_refusal(connection: sqlite3.Connection, project: str, signature: str, at: str, call_id: str | None) -> bool:
    """Tell whether a person said no to this signature then."""
    return any(
        (entry.project, entry.status, entry.at) == (project, "denied", at)
        and signature in entry.body.get("signatures", ())
        for entry in told(connection, OF_CALL, call_id, "answered")
    )


def claimed(connection: sqlite3.Connection, agent_id: str, request_id: str) -> tuple[str, str] | None:
    """The call that an agent's request id stands for, and the hash of what it wished."""
    named = connection.execute(CLAIM, (request_id, agent_id)).fetchone()
    return named or _claimed_earlier(connection, agent_id, request_id)


def _claimed_earlier(connection: sqlite3.Connection, agent_id: str, request_id: str) -> tuple[str, str] | None:
    """By a call whose first entry does not tell the hash: of an earlier release, or erased."""
    row: tuple[str, str] | None = connection.execute(
        "SELECT call_id, input_hash FROM requests WHERE agent_id = ? AND request_id = ?", (agent_id, request_id)
    ).fetchone()
    if row is None:
        return None
    first = connection.execute(
        "SELECT agent_id, request_id FROM entries WHERE call_id = ? ORDER BY id LIMIT 1", (row[0],)
    ).fetchone()
    return row if first == (agent_id, request_id) else None


def is_state(connection: sqlite3.Connection, project: str, version: int, snapshot_id: str, document: bytes) -> bool:
    """Tell whether this document is the state that a call settled; of an erased call its name vouches for it."""
    row = connection.execute(
        "SELECT project, version, call_id, document FROM snapshots WHERE snapshot_id = ?", (snapshot_id,)
    ).fetchone()
    hash = sha256(document).hexdigest()
    if row is None or (row[0], row[1], row[3]) != (project, version, hash):
        return False
    wanted = {"state_version": version, "snapshot_id": snapshot_id, "state_hash": hash}
    settled = told(connection, OF_CALL, row[2], "settled")
    return any(wanted.items() <= entry.body.items() for entry in settled if entry.project == project) or _is_erased(
        connection, project, row[2]
    )


def _is_erased(connection: sqlite3.Connection, project: str, call_id: str) -> bool:
    row = connection.execute(
        "SELECT 1 FROM entries WHERE call_id = ? AND project = ? AND kind = 'settled' AND body IS NULL",
        (call_id, project),
    ).fetchone()
    return row is not None


def project_documents(connection: sqlite3.Connection, project: str) -> Mapping[str, Any]:
    """The initial state and the schema of a project, as the entry that made it says."""
    for entry in told(connection, MADE, project):
        return {name: entry.body[name] for name in ("initial_state", "state_schema") if name in entry.body}
    return {}

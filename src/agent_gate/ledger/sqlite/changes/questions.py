"""Questions to people: put, answered, taken over by another process, dropped."""

from __future__ import annotations

from hashlib import sha256

import orjson

from agent_gate.ledger.sqlite import backing
from agent_gate.ledger.sqlite.changes.handler import Handler, Writing
from agent_gate.model.committed import NotPending
from agent_gate.model.moment import iso
from agent_gate.model.work import Hold, HoldBare, Resolve, TakeOver, Unhold


def _hold(writing: Writing, change: Hold) -> None:
    question = change.question
    encoded = orjson.dumps(question)
    writing.cursor.execute(
        "INSERT INTO pending_requests VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '[]', NULL, ?, ?, ?)"
        " ON CONFLICT (call_id) DO UPDATE SET question = excluded.question, nonce = excluded.nonce,"
        " approvers_required = excluded.approvers_required, approved_by = '[]', resolution = NULL,"
        " args = excluded.args, signature = excluded.signature, created_at = excluded.created_at,"
        " expires_at = excluded.expires_at, instance = excluded.instance, boot = excluded.boot,"
        " ends_at = excluded.ends_at",
        (
            question.call_id,
            question.request_id,
            question.project,
            question.agent_id,
            question.tool,
            orjson.dumps(question.args).decode(),
            "\n".join(question.signatures),
            iso(question.created_at),
            iso(question.expires_at),
            encoded.decode(),
            question.nonce,
            question.approvers_required,
            writing.instance,
            question.boot or None,
            question.ends_at if question.boot else None,
        ),
    )
    writing.told["question"] = sha256(encoded).hexdigest()


def _hold_bare(writing: Writing, request: HoldBare) -> None:
    writing.cursor.execute(
        "INSERT INTO pending_requests (call_id, request_id, tool_name, args, signature, created_at, expires_at,"
        " approvers_required, approved_by, instance) VALUES (?, ?, ?, ?, ?, ?, ?, 1, '[]', ?)",
        (
            request.request_id,
            request.request_id,
            request.tool_name,
            request.args.decode(),
            request.signature,
            iso(request.created_at),
            iso(request.expires_at),
            writing.instance,
        ),
    )


def _check_resolve(writing: Writing, resolve: Resolve) -> NotPending | None:
    writing.group.write()  # an answer of the same group counts too
    row = writing.cursor.execute(
        "SELECT nonce, approvers_required, expires_at FROM pending_requests WHERE call_id = ?", (resolve.call_id,)
    ).fetchone()
    if row is None:
        return NotPending("missing")
    nonce, required, expires_at = row
    if nonce != resolve.nonce:
        return NotPending("other")
    resolution, approved_by = backing.answers(writing.cursor, resolve.call_id, nonce, required)
    if resolution is not None or (resolve.by and resolve.by in approved_by):
        return NotPending("answered")
    if resolve.resolution in ("approved", "denied") and not resolve.in_time and iso(resolve.at) >= expires_at:
        return NotPending("late")
    return None


def _resolve(writing: Writing, resolve: Resolve) -> None:
    cursor = writing.cursor
    required, signatures = cursor.execute(
        "SELECT approvers_required, signature FROM pending_requests WHERE call_id = ?", (resolve.call_id,)
    ).fetchone()
    approvers = list(backing.answers(cursor, resolve.call_id, resolve.nonce, required)[1])
    resolution: str | None = resolve.resolution
    if resolution == "approved":
        approvers.append(resolve.by)
        if len(approvers) < required:
            resolution = None
    if resolution == "denied":
        for signature in signatures.split("\n"):
            cursor.execute(
                "INSERT INTO refusals VALUES (?, ?, ?, ?) ON CONFLICT (project, signature)"
                " DO UPDATE SET at = excluded.at, call_id = excluded.call_id",
                (writing.project, signature, iso(resolve.at), resolve.call_id),
            )
    cursor.execute(
        "UPDATE pending_requests SET approved_by = ?, resolution = ? WHERE call_id = ?",
        (orjson.dumps(approvers).decode(), resolution, resolve.call_id),
    )


def _check_take_over(writing: Writing, change: TakeOver) -> NotPending | None:
    found = writing.cursor.execute(
        "SELECT 1 FROM pending_requests WHERE call_id = ? AND instance = ?", (change.call_id, change.instance)
    ).fetchone()
    return None if found else NotPending("other")


def _take_over(writing: Writing, change: TakeOver) -> None:
    row = (writing.instance, change.call_id)
    writing.cursor.execute("UPDATE pending_requests SET instance = ? WHERE call_id = ?", row)


def _unhold(writing: Writing, change: Unhold) -> None:
    writing.cursor.execute("DELETE FROM pending_requests WHERE call_id = ?", (change.call_id,))


HANDLERS = (
    Handler(Hold, _hold),
    Handler(HoldBare, _hold_bare),
    Handler(Resolve, _resolve, _check_resolve),
    Handler(TakeOver, _take_over, _check_take_over),
    Handler(Unhold, _unhold),
)

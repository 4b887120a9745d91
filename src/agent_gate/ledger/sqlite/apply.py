"""One piece of work inside the writer's transaction: every check first, then every write."""

from __future__ import annotations

import sqlite3

import orjson
from msgspec.structs import replace

from agent_gate.ledger.chain import GENESIS, seal
from agent_gate.ledger.sqlite import backing, side_tables
from agent_gate.ledger.sqlite.group import ENTRY_WAL_BYTES, WORK_WAL_BYTES, Chain, Group
from agent_gate.ledger.sqlite.undone import undone
from agent_gate.model.charge import Charge
from agent_gate.model.entry import (
    AlreadyClosed,
    Applied,
    Committed,
    Draft,
    Kind,
    NoRoom,
    NotOpen,
    NotPending,
    Refused,
    RequestTaken,
    Resolve,
    RevokeGrant,
    StateChange,
    StateMoved,
    UseGrant,
    Work,
)
from agent_gate.model.moment import iso
from agent_gate.model.record import output_blob, undo_blob

Cursor = sqlite3.Connection

SELECT_USED = "SELECT coalesce(sum(amount), 0) FROM counters WHERE project = ? AND scope = ? AND bucket > ?"


def apply(group: Group, work: Work, instance: str) -> Committed:
    """Commit-time truth: what was checked earlier is checked again here, under the writer lock."""
    cursor, chain = group.cursor, group.chain(work.project)
    if chain is not None and work.is_plain:  # as most are: there is little to check, and nothing to write besides
        if work.stands_on is not None and not chain.is_at(work.stands_on):
            return StateMoved(chain.state_version)
        if work.must_be_open and (status := group.status(chain)) != "open":
            return NotOpen(status)
        return _write_entries(group, work, chain, work.entries)
    refused = _check(group, work, chain)
    if refused is not None:
        return refused
    if chain is None:
        chain = _create_chain(cursor, work)
        group.begin(chain)
    if work.erases:
        group.write()
    _write_work_rows(cursor, work, instance)
    if work.claim:
        group.claims[work.claim.agent_id, work.claim.request_id] = work.claim.call_id, work.claim.input_hash
    group.wal_bytes += WORK_WAL_BYTES + sum(len(data) for _, data in work.blobs)
    for item in work.side_tables:
        side_tables.write(cursor, item)
    if work.project_change:
        chain.status = work.project_change.status
    return _write_entries(group, work, chain, _told(cursor, work, instance))


def _check(group: Group, work: Work, chain: Chain | None) -> Refused | None:
    cursor = group.cursor
    change = work.project_change
    if work.stands_on is not None and chain is not None and not chain.is_at(work.stands_on):
        # Before all else: what is refused for another reason is told with the facts that it was judged by.
        return StateMoved(chain.state_version)
    if chain is None:
        if not (change and change.create):
            return NotOpen("missing")
    elif change and change.create:
        return NotOpen("exists")
    elif work.must_be_open and (status := group.status(chain)) != "open":
        return NotOpen(status)
    if work.claim:
        key = work.claim.agent_id, work.claim.request_id
        taken = group.claims.get(key) or backing.claimed(cursor, *key)
        if taken:
            return RequestTaken(*taken)
    if (
        work.closes is not None
        and not cursor.execute("SELECT 1 FROM open_work WHERE id = ?", (work.closes,)).fetchone()
    ):
        return AlreadyClosed(work.closes)
    if (
        work.takes_over
        and not cursor.execute(
            "SELECT 1 FROM pending_requests WHERE call_id = ? AND instance = ?", work.takes_over
        ).fetchone()
    ):
        return NotPending("other")
    refused = _check_entries(group, work)
    if refused is not None or work.resolves:
        return refused
    for charge in work.charges:
        used = used_of(cursor, work.project, charge)
        if not charge.has_room(used):
            return NoRoom(charge, used)
    return None


def _check_entries(group: Group, work: Work) -> Refused | None:
    """What rests on entries, also on those of this group."""
    cursor = group.cursor
    if (
        work.undoes is not None
        or work.resolves
        or any(isinstance(one, UseGrant | RevokeGrant) for one in work.side_tables)
    ):
        group.write()
    if work.undoes is not None and (earlier := undone(cursor, work.project, work.undoes)):
        return earlier
    for item in work.side_tables:
        spent = side_tables.check(cursor, item)
        if spent is not None:
            return spent
    return _check_pending(cursor, work.resolves) if work.resolves else None


def _check_pending(cursor: Cursor, resolve: Resolve) -> NotPending | None:
    row = cursor.execute(
        "SELECT nonce, approvers_required, expires_at FROM pending_requests WHERE call_id = ?", (resolve.call_id,)
    ).fetchone()
    if row is None:
        return NotPending("missing")
    nonce, required, expires_at = row
    if nonce != resolve.nonce:
        return NotPending("other")
    resolution, approved_by = backing.answers(cursor, resolve.call_id, nonce, required)
    if resolution is not None or (resolve.by and resolve.by in approved_by):
        return NotPending("answered")
    if resolve.resolution in ("approved", "denied") and not resolve.in_time and iso(resolve.at) >= expires_at:
        return NotPending("late")
    return None


def used_of(cursor: Cursor, project: str, charge: Charge) -> float:
    row = cursor.execute(SELECT_USED, (project, charge.scope, charge.bucket - charge.window)).fetchone()
    return float(row[0])


def _create_chain(cursor: Cursor, work: Work) -> Chain:
    change = work.project_change
    assert change is not None
    cursor.execute(
        "INSERT INTO heads (project, seq, hash, state_version, status, created_at, initial_state, state_schema)"
        " VALUES (?, 0, ?, 0, ?, ?, ?, ?)",
        (
            work.project,
            GENESIS,
            change.status,
            work.entries[0].at,
            change.initial_state and change.initial_state.decode(),
            change.state_schema and change.state_schema.decode(),
        ),
    )
    return Chain(work.project, 0, GENESIS, 0, None, change.status)


def _write_work_rows(cursor: Cursor, work: Work, instance: str) -> None:
    """The tables beside the chain; most work touches one of them or none."""
    project = work.project
    if work.claim:
        claim = work.claim
        cursor.execute(
            "INSERT INTO requests VALUES (?, ?, ?, ?) ON CONFLICT (agent_id, request_id)"
            " DO UPDATE SET call_id = excluded.call_id, input_hash = excluded.input_hash",
            (claim.agent_id, claim.request_id, claim.call_id, claim.input_hash),
        )
    if work.opens:
        kind, id = work.opens
        cursor.execute("INSERT INTO open_work VALUES (?, ?, ?, ?)", (id, kind, project, instance))
    if work.closes is not None:
        _close(cursor, work, work.closes)
    for charge in work.charges:
        count(cursor, project, charge.scope, charge.bucket, charge.amount, charge.window)
    for charge in work.releases:
        count(cursor, project, charge.scope, charge.bucket, -charge.amount, charge.window)
    if work.holds:
        _hold(cursor, work, instance)
    if work.pending:
        row = work.pending
        cursor.execute(
            "INSERT INTO pending_requests (call_id, request_id, tool_name, args, signature, created_at, expires_at,"
            " approvers_required, approved_by, instance) VALUES (?, ?, ?, ?, ?, ?, ?, 1, '[]', ?)",
            (
                row.request_id,
                row.request_id,
                row.tool_name,
                row.args.decode(),
                row.signature,
                iso(row.created_at),
                iso(row.expires_at),
                instance,
            ),
        )
    if work.resolves:
        _resolve(cursor, work.resolves, project)
    if work.takes_over:
        cursor.execute("UPDATE pending_requests SET instance = ? WHERE call_id = ?", (instance, work.takes_over[0]))
    if work.unholds is not None:
        cursor.execute("DELETE FROM pending_requests WHERE call_id = ?", (work.unholds,))
    for effect in work.outbox:
        cursor.execute(
            "INSERT INTO outbox VALUES (?, ?, ?, ?, ?, ?)",
            (effect.effect_id, project, effect.call_id, effect.tool, effect.payload.decode(), instance),
        )
    if work.outbox_done is not None:
        cursor.execute("DELETE FROM outbox WHERE effect_id = ?", (work.outbox_done,))
    for hash, data in work.blobs:
        cursor.execute("INSERT INTO blobs VALUES (?, ?) ON CONFLICT (hash) DO NOTHING", (hash, data))
    if work.project_change and not work.project_change.create:
        cursor.execute("UPDATE heads SET status = ? WHERE project = ?", (work.project_change.status, project))
    if work.erases:
        _erase(cursor, work)


def _close(cursor: Cursor, work: Work, id: str) -> None:
    cursor.execute("DELETE FROM open_work WHERE id = ?", (id,))
    if work.entries and work.entries[0].kind is Kind.RUN:
        forget_quotas(cursor, work.project, id)


def _erase(cursor: Cursor, work: Work) -> None:
    """Whatever this project holds of the calls' content; a chain elsewhere needs an erase entry of its own."""
    cursor.execute("PRAGMA secure_delete = ON")
    for call_id in work.erases:
        place = (work.project, call_id)
        signed = cursor.execute(
            "SELECT DISTINCT signature FROM entries WHERE project = ? AND call_id = ? AND signature IS NOT NULL", place
        ).fetchall()
        for signature in {name for (names,) in signed for name in names.split("\n")}:
            cursor.execute("DELETE FROM refusals WHERE project = ? AND signature = ?", (work.project, signature))
        cursor.execute(
            "UPDATE entries SET body = NULL, signature = NULL WHERE project = ? AND call_id = ?"
            " AND kind NOT IN ('erased', 'policy', 'project', 'run')",
            place,
        )
        cursor.execute("DELETE FROM blobs WHERE hash IN (?, ?)", (output_blob(call_id), undo_blob(call_id)))


def count(cursor: Cursor, project: str, scope: str, bucket: int, amount: float, window: int) -> None:
    cursor.execute(
        "INSERT INTO counters VALUES (?, ?, ?, ?)"
        " ON CONFLICT (project, scope, bucket) DO UPDATE SET amount = amount + excluded.amount",
        (project, scope, bucket, amount),
    )
    cursor.execute(
        "DELETE FROM counters WHERE project = ? AND scope = ? AND bucket <= ?", (project, scope, bucket - window)
    )


def forget_quotas(cursor: Cursor, project: str, run_id: str) -> None:
    """Of a run that is over."""
    cursor.execute(
        "DELETE FROM counters WHERE project = ? AND scope >= ? AND scope < ?",
        (project, f"run:{run_id}:", f"run:{run_id};"),
    )


def _hold(cursor: Cursor, work: Work, instance: str) -> None:
    question = work.holds
    assert question is not None
    cursor.execute(
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
            orjson.dumps(question).decode(),
            question.nonce,
            question.approvers_required,
            instance,
            question.boot or None,
            question.ends_at if question.boot else None,
        ),
    )


def _resolve(cursor: Cursor, resolve: Resolve, project: str) -> None:
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
                (project, signature, iso(resolve.at), resolve.call_id),
            )
    cursor.execute(
        "UPDATE pending_requests SET approved_by = ?, resolution = ? WHERE call_id = ?",
        (orjson.dumps(approvers).decode(), resolution, resolve.call_id),
    )


def _told(cursor: Cursor, work: Work, instance: str) -> tuple[Draft, ...]:
    """The entries, the first of them with what the work does beside the chain."""
    fields = backing.told_work(cursor, work, instance)
    drafts = work.entries
    if fields and drafts:
        drafts = (replace(drafts[0], body=backing.with_work(drafts[0].body, fields)), *drafts[1:])
    return (*(item.entry for item in work.side_tables if isinstance(item, UseGrant)), *drafts)


def _write_entries(group: Group, work: Work, chain: Chain, drafts: tuple[Draft, ...]) -> Applied:
    for draft in drafts:
        chain.seq += 1
        row, chain.hash = seal(work.project, chain.seq, chain.hash, draft)
        group.rows.append(row)
        group.wal_bytes += ENTRY_WAL_BYTES + len(draft.body)
        chain.is_moved = True
    if work.state and work.entries:
        chain.state_version, chain.snapshot_id = chain.state_version + 1, work.state.snapshot_id
        _add_snapshot(group, work, work.state, chain.state_version)
    return Applied(chain.seq, chain.hash, chain.state_version)


def _add_snapshot(group: Group, work: Work, state: StateChange, version: int) -> None:
    last = work.entries[-1]
    group.documents.append((state.document_hash, state.document))
    group.snapshots.append((state.snapshot_id, work.project, version, last.at, last.call_id, state.document_hash))
    group.wal_bytes += ENTRY_WAL_BYTES + len(state.document)

"""Projects: their beginning, status and state, the blobs that their entries name, and what is erased of them."""

from __future__ import annotations

from agent_gate.ledger.chain import GENESIS
from agent_gate.ledger.sqlite.changes.handler import Handler, Writing
from agent_gate.ledger.sqlite.group import ENTRY_WAL_BYTES, Chain
from agent_gate.ledger.sqlite.service_tables import brought, quoted
from agent_gate.model.committed import NotOpen
from agent_gate.model.record import output_blob, undo_blob
from agent_gate.model.work import CreateProject, Erase, KeepBlob, SetStatus, StateChange


def _check_create(writing: Writing, _change: CreateProject) -> NotOpen | None:
    return None if writing.group.chain(writing.project) is None else NotOpen("exists")


def _create(writing: Writing, change: CreateProject) -> None:
    writing.cursor.execute(
        "INSERT INTO heads (project, seq, hash, state_version, status, created_at, initial_state, state_schema)"
        " VALUES (?, 0, ?, 0, 'open', ?, ?, ?)",
        (
            writing.project,
            GENESIS,
            writing.work.entries[0].at,
            change.initial_state and change.initial_state.decode(),
            change.state_schema and change.state_schema.decode(),
        ),
    )
    writing.group.begin(Chain(writing.project, 0, GENESIS, 0, None, "open"))


def _set_status(writing: Writing, change: SetStatus) -> None:
    writing.cursor.execute("UPDATE heads SET status = ? WHERE project = ?", (change.status, writing.project))
    writing.chain.status = change.status


def _change_state(writing: Writing, state: StateChange) -> None:
    group, chain, last = writing.group, writing.chain, writing.work.entries[-1]
    chain.state_version, chain.snapshot_id = chain.state_version + 1, state.snapshot_id
    group.documents.append((state.document_hash, state.document))
    group.snapshots.append(
        (state.snapshot_id, writing.project, chain.state_version, last.at, last.call_id, state.document_hash)
    )
    group.wal_bytes += ENTRY_WAL_BYTES + len(state.document)


def _keep_blob(writing: Writing, blob: KeepBlob) -> None:
    row = (blob.name, blob.data)
    writing.cursor.execute("INSERT INTO blobs VALUES (?, ?) ON CONFLICT (hash) DO NOTHING", row)
    writing.group.wal_bytes += len(blob.data)


def _erase(writing: Writing, change: Erase) -> None:
    """Whatever this project holds of the calls' content; a chain elsewhere needs an erase entry of its own."""
    cursor, project = writing.cursor, writing.project
    writing.group.write()  # entries of the same group are erased too
    cursor.execute("PRAGMA secure_delete = ON")
    tables = [table for table in brought(cursor) if table.call]
    for call_id in change.call_ids:
        place = (project, call_id)
        signed = cursor.execute(
            "SELECT DISTINCT signature FROM entries WHERE project = ? AND call_id = ? AND signature IS NOT NULL", place
        ).fetchall()
        for signature in {name for (names,) in signed for name in names.split("\n")}:
            cursor.execute("DELETE FROM refusals WHERE project = ? AND signature = ?", (project, signature))
        cursor.execute(
            "UPDATE entries SET body = NULL, signature = NULL WHERE project = ? AND call_id = ?"
            " AND kind NOT IN ('erased', 'policy', 'project', 'run')",
            place,
        )
        cursor.execute("DELETE FROM blobs WHERE hash IN (?, ?)", (output_blob(call_id), undo_blob(call_id)))
        for table in tables:
            sql = f"DELETE FROM {quoted(table.name)} WHERE {quoted(table.call)} = ?"  # noqa: S608 -- names of ours
            cursor.execute(sql, (call_id,))
    # What the erased bodies told of the counts is gone.
    found = cursor.execute("SELECT scope, bucket, amount FROM counters WHERE project = ?", (project,))
    writing.told["counters"] = [list(row) for row in found.fetchall()]
    writing.is_counted = True


HANDLERS = (
    Handler(CreateProject, _create, _check_create),
    Handler(SetStatus, _set_status),
    Handler(StateChange, _change_state, is_written_with_group=True),
    Handler(KeepBlob, _keep_blob),
    Handler(Erase, _erase),
)

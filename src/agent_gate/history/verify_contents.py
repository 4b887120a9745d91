"""What entries name outside the chain: snapshots with their documents, large results, policies and plans."""

from __future__ import annotations

import json
import re
import sqlite3
from hashlib import sha256
from typing import Any

from agent_gate.history.findings import ODD_VALUES, Findings
from agent_gate.model.codec import restore
from agent_gate.model.record import output_blob

_CONTENT_HASH = re.compile(r"[0-9a-f]{64}").fullmatch
_OUTPUT = output_blob("")
_ARGS = '{"args":'
_decode_one = json.JSONDecoder().raw_decode


class Contents:
    """Follows what entries name. In a check of the whole ledger, every blob is then hashed once, by `check_blobs`."""

    def __init__(self, connection: sqlite3.Connection, findings: Findings, *, hash_now: bool) -> None:
        self._connection, self._findings, self._hash_now = connection, findings, hash_now

    def check_settled(self, project: str, seq: int, call_id: str | None, body: str) -> dict[str, Any] | None:
        """The body's fields, if it settled a new state."""
        changes_state = '"state_hash":"' in body
        output_apart = '"output_hash":"' in body and not has_data(body)
        if not changes_state and not output_apart:
            return None
        fields: dict[str, Any] = restore(body.encode())
        if output_apart and "output_hash" in fields:
            self._check_blob(project, seq, output_blob(call_id or ""), fields["output_hash"], "the call's result")
        if not changes_state or "state_hash" not in fields:
            return None
        self._check_snapshot(project, seq, call_id, fields)
        return fields

    def check_blobs_of(self, project: str, seq: int, body: str) -> None:
        if '_hash":"' not in body:
            return
        fields = restore(body.encode())
        for key, what in (("plan_hash", "the run's plan"), ("policy_hash", "the policy")):
            if key in fields:
                self._check_blob(project, seq, fields[key], fields[key], what)

    def _check_snapshot(self, project: str, seq: int, call_id: str | None, fields: dict[str, Any]) -> None:
        document_hash = fields["state_hash"]
        row = self._connection.execute(
            "SELECT project, version, call_id, document FROM snapshots WHERE snapshot_id = ?", (fields["snapshot_id"],)
        ).fetchone()
        if row is None:
            self._findings.add(project, seq, f"its snapshot `{fields['snapshot_id']}` is missing")
        elif row != (project, fields["state_version"], call_id, document_hash):
            self._findings.add(project, seq, f"its snapshot `{fields['snapshot_id']}` is not the one that it made")
        else:
            self._check_blob(project, seq, document_hash, document_hash, "the state's document")

    def _check_blob(self, project: str, seq: int, name: str, content_hash: str, what: str) -> None:
        if self._hash_now:
            row = self._connection.execute("SELECT data FROM blobs WHERE hash = ?", (name,)).fetchone()
            if row is not None and not _is_content(row[0], content_hash):
                self._findings.add(project, seq, f"{what} is not the one that was recorded")
        else:
            row = self._connection.execute("SELECT 1 FROM blobs WHERE hash = ?", (name,)).fetchone()
        if row is None:
            self._findings.add(project, seq, f"{what} is missing")

    def check_blobs(self) -> None:
        """Every blob holds what its name, or the call that it belongs to, says."""
        for name, data in self._connection.execute("SELECT hash, data FROM blobs"):
            if not isinstance(name, str):
                self._findings.add(None, None, "the name of a blob is not a text")
            elif name.startswith(_OUTPUT):
                self._check_output(name.removeprefix(_OUTPUT), data)
            elif _CONTENT_HASH(name) and not _is_content(data, name):
                self._findings.add(None, None, f"blob `{name}` does not hold what its name says")

    def _check_output(self, call_id: str, data: object) -> None:
        row = self._connection.execute(
            "SELECT project, seq, body FROM entries WHERE call_id = ? AND kind = 'settled'", (call_id,)
        ).fetchone()
        if row is None:
            self._findings.add(None, None, f"there is a result of call `{call_id}`, but no entry of it")
        elif row[2] is None:
            self._findings.add(row[0], row[1], "the call was erased, but its result is still there")
        elif not _is_content(data, _recorded_output(row[2])):
            self._findings.add(row[0], row[1], "the call's result is not the one that was recorded")


def _recorded_output(body: Any) -> object:
    try:
        return restore(body.encode())["output_hash"]
    except ODD_VALUES:
        return None


def has_data(body: str) -> bool:
    """Whether a settled body holds the call's result itself; looks behind the arguments without parsing the rest.

    Canonical JSON sorts its keys, so that only `args` and `cost` can come before `data`.
    """
    place = 1
    if body.startswith(_ARGS):
        place = _decode_one(body, len(_ARGS))[1] + 1
    if body.startswith('"cost":', place):
        place = body.find(",", place) + 1
    return body.startswith('"data":', place)


def _is_content(data: object, content_hash: object) -> bool:
    return isinstance(data, bytes) and sha256(data).hexdigest() == content_hash

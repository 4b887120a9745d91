"""Things outside the chain that entries name: snapshots and documents, large results, undo copies, policies, plans."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from typing import Any

from agent_gate.history.findings import ODD_VALUES, Findings
from agent_gate.model.codec import restore
from agent_gate.model.record import output_blob, undo_blob
from agent_gate.ports.examining import StoredTables

_OWNED = {
    output_blob(""): ("output_hash", "the call's result", ("settled",)),
    undo_blob(""): ("kept_hash", "what was kept to undo the call", ("performing", "committing")),
}
"""Blobs of one call, by the beginning of their names: how they are vouched for, and in which entries."""

_NAMED = (("plan_hash", "the run's plan"), ("policy_hash", "the policy"), ("tools_hash", "what the tools said"))

_CONTENT_HASH = re.compile(r"[0-9a-f]{64}").fullmatch
_BEFORE_DATA = ('"aliases":', '"args":', '"cost":')
_decode_one = json.JSONDecoder().raw_decode


class Contents:
    """Follows what entries name. In a check of the whole ledger, every blob is then hashed once, by `check_blobs`."""

    def __init__(self, tables: StoredTables, findings: Findings, *, hash_now: bool) -> None:
        self._tables, self._findings, self._hash_now = tables, findings, hash_now

    def check_settled(self, project: str, seq: int, call_id: str | None, body: str) -> dict[str, Any] | None:
        """The body's fields, if it settled a new state."""
        changes_state = '"state_hash":"' in body
        output_apart = '"output_hash":"' in body and not has_data(body)
        if not changes_state and not output_apart:
            return None
        fields: dict[str, Any] = restore(body.encode())
        if output_apart:
            self._check_owned(project, seq, call_id, fields, output_blob(""))
        if "state_hash" not in fields:
            return None
        self._check_snapshot(project, seq, call_id, fields)
        return fields

    def check_intent(self, project: str, seq: int, call_id: str | None, body: str) -> None:
        if '"kept_hash":"' in body:
            self._check_owned(project, seq, call_id, restore(body.encode()), undo_blob(""))

    def check_named(self, project: str, seq: int, body: str) -> None:
        """The policy, tools or plan that an entry names by their hash."""
        fields = restore(body.encode())
        for key, what in _NAMED:
            if key in fields:
                self._check_blob(project, seq, fields[key], fields[key], what)

    def _check_owned(self, project: str, seq: int, call_id: str | None, fields: dict[str, Any], prefix: str) -> None:
        key, what, _ = _OWNED[prefix]
        if key in fields:
            self._check_blob(project, seq, f"{prefix}{call_id}", fields[key], what)

    def _check_snapshot(self, project: str, seq: int, call_id: str | None, fields: dict[str, Any]) -> None:
        document_hash = fields["state_hash"]
        row = self._tables.snapshot(fields["snapshot_id"])
        if row is None:
            self._findings.add(project, seq, f"its snapshot `{fields['snapshot_id']}` is missing")
        elif row != (project, fields["state_version"], call_id, document_hash):
            self._findings.add(project, seq, f"its snapshot `{fields['snapshot_id']}` is not the one that it made")
        else:
            self._check_blob(project, seq, document_hash, document_hash, "the state's document")

    def _check_blob(self, project: str, seq: int, name: str, content_hash: str, what: str) -> None:
        if not self._hash_now:
            if not self._tables.has_blob(name):
                self._findings.add(project, seq, f"{what} is missing")
            return
        row = self._tables.blob(name)
        if row is None:
            self._findings.add(project, seq, f"{what} is missing")
        elif not _is_content(row[0], content_hash):
            self._findings.add(project, seq, f"{what} is not the one that was recorded")

    def check_blobs(self) -> None:
        """Every blob holds what its name, or the call that it belongs to, says."""
        for name, data in self._tables.rows("blobs"):
            if not isinstance(name, str):
                self._findings.add(None, None, "the name of a blob is not a text")
                continue
            prefix, colon, call_id = name.partition(":")
            if prefix + colon in _OWNED:
                self._check_owner(call_id, data, *_OWNED[prefix + colon])
            elif not _CONTENT_HASH(name):
                self._findings.add(None, None, f"nothing that is ever written has a blob `{name[:80]}`")
            elif not _is_content(data, name):
                self._findings.add(None, None, f"blob `{name}` does not hold what its name says")

    def _check_owner(self, call_id: str, data: object, key: str, what: str, kinds: tuple[str, ...]) -> None:
        row = self._tables.last_entry(call_id, kinds)
        if row is None:
            self._findings.add(None, None, f"{what} `{call_id[:80]}` is there, but no entry of it")
        elif row[2] is None:
            self._findings.add(row[0], row[1], f"the call was erased, but {what} is still there")
        elif not _is_content(data, _recorded(row[2], key)):
            self._findings.add(row[0], row[1], f"{what} is not the one that was recorded")


def has_data(body: str) -> bool:
    """Tell whether a settled body holds the call's result itself; looks behind the arguments without parsing the rest.

    Canonical JSON sorts its keys, so that only these can come before `data`.
    """
    place = 1
    for key in _BEFORE_DATA:
        if body.startswith(key, place):
            place = _decode_one(body, place + len(key))[1] + 1
    return body.startswith('"data":', place)


def _recorded(body: Any, key: str) -> object:
    try:
        return restore(body.encode())[key]
    except ODD_VALUES:
        return None


def _is_content(data: object, content_hash: object) -> bool:
    return isinstance(data, bytes) and sha256(data).hexdigest() == content_hash

"""The walk along every chain: each entry in its place, with the hash, body and signatures it was written with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from agent_gate.history.erasures import Erasures
from agent_gate.history.findings import ODD_VALUES, Findings
from agent_gate.history.rebuilt import Rebuilt
from agent_gate.history.verify_contents import Contents
from agent_gate.ledger.chain import GENESIS, header_bytes
from agent_gate.model.codec import canonical, restore
from agent_gate.ports.examining import StoredTables

WITH_SIGNATURES = frozenset({"held", "answered", "performing", "committing", "settled", "judged", "reverted"})
"""Kinds whose body always has `signatures` at its top level."""

WITH_REFERENCES = frozenset({"settled", "performing", "committing", "run", "policy", "tools", "project"})
"""Kinds whose body may name something outside the chain."""

_KEY = '"signatures":'


@dataclass(slots=True)
class End:
    """The state of a walk along one chain: how far it has come, and what the entries say of the project."""

    seq: int = 0
    hash: bytes = GENESIS
    status: str = "open"
    state_version: int = 0
    snapshot_id: str | None = None
    initial_state: str | None = None
    state_schema: str | None = None


class Walk:
    """Streams over `entries` in the order of the table itself, because an index can be made to hide a row."""

    def __init__(
        self,
        tables: StoredTables,
        findings: Findings,
        erasures: Erasures,
        contents: Contents,
        run_id: str | None = None,
        rebuilt: Rebuilt | None = None,
    ) -> None:
        """`rebuilt` is told of every entry that is as it was written.

        With a run, links and headers of its projects are checked in full, and bodies for its own entries.
        """
        self._tables, self._findings = tables, findings
        self._erasures, self._contents = erasures, contents
        self._run_id, self._rebuilt = run_id, rebuilt
        self.ends: dict[str, End] = {}
        self.entries = 0
        self.erased = 0

    def run(self) -> None:
        self._check(self._tables.entries(self._run_id))

    def run_between(self, project: str, first_id: int, last_id: int | None) -> None:
        """Along one project's chain between two places of the table, or to its end; `ends` says where it begins."""
        self._check(self._tables.entries_between(self._run_id, project, first_id, last_id))

    def _check(self, rows: Iterable[tuple[Any, ...]]) -> None:
        ends, run, rebuilt = self.ends, self._run_id, self._rebuilt
        for row in rows:
            (
                project, seq, at, kind, run_id, call_id, request_id, agent_id, tool, signature, status,
                body, body_hash, prev_hash, hash,
            ) = row  # fmt: skip
            end = ends.get(project)
            if end is None:
                end = ends[project] = End()
            if seq != end.seq + 1 or prev_hash != end.hash:
                self._out_of_place(row, end)
            else:
                end.seq = seq
            end.hash = hash
            try:
                header = header_bytes(
                    project, seq, at, kind, run_id, call_id, request_id, agent_id, tool, status, body_hash
                )
                if sha256(prev_hash + header).digest() != hash:
                    self._findings.add(project, seq, "the entry is not the one that was hashed")
                if run is not None and run_id != run:
                    continue
                self.entries += 1
                if body is None:
                    self._check_tombstone(project, seq, kind, call_id, signature)
                    if rebuilt is not None:
                        rebuilt.note(project, seq, at, kind, run_id, call_id, tool, status, None)
                    continue
                if sha256(body.encode()).digest() != body_hash:
                    self._findings.add(project, seq, "the body is not the one that was hashed")
                    continue
                if not is_signed_as(kind, signature, body):
                    self._findings.add(project, seq, "the column `signature` differs from the body's signatures")
                if rebuilt is not None:
                    rebuilt.note(project, seq, at, kind, run_id, call_id, tool, status, body)
                if kind in WITH_REFERENCES:
                    self._follow(project, seq, kind, call_id, status, body, end)
            except ODD_VALUES:
                self._findings.add(project, seq, "it holds a value that is never written")

    def _out_of_place(self, row: tuple[Any, ...], end: End) -> None:
        project, seq, prev_hash = row[0], row[1], row[13]
        if not isinstance(seq, int):
            self._findings.add(project, end.seq + 1, "its number in the chain is not a number")
            end.seq += 1
            return
        if seq > end.seq + 1:
            missing = f"{end.seq + 1} to {seq - 1}" if seq > end.seq + 2 else f"{seq - 1}"
            self._findings.add(project, seq, f"entry {missing} before it is missing")
        elif seq <= end.seq:
            self._findings.add(project, seq, f"it comes after entry {end.seq}")
        elif prev_hash != end.hash:
            self._findings.add(project, seq, "it does not follow from the entry before it")
        end.seq = seq

    def _check_tombstone(self, project: str, seq: int, kind: str, call_id: str | None, signature: str | None) -> None:
        if call_id is None or not self._erasures.cover(project, call_id, seq):
            self._findings.add(project, seq, f"the body of this `{kind}` entry is gone, and no erase entry names it")
            return
        if signature is not None:
            self._findings.add(project, seq, "the body was erased, but not its signature")
        self.erased += 1

    def _follow(
        self, project: str, seq: int, kind: str, call_id: str | None, status: str | None, body: str, end: End
    ) -> None:
        match kind:
            case "settled":
                fields = self._contents.check_settled(project, seq, call_id, body)
                if fields is not None:
                    end.state_version, end.snapshot_id = fields["state_version"], fields["snapshot_id"]
            case "performing" | "committing":
                self._contents.check_intent(project, seq, call_id, body)
            case "project":
                _note_project(end, status, restore(body.encode()))
            case _:
                self._contents.check_named(project, seq, body)


def _note_project(end: End, status: str | None, fields: Mapping[str, Any]) -> None:
    end.status = status or ""
    for name in ("initial_state", "state_schema"):
        if name in fields:
            setattr(end, name, canonical(fields[name]).decode())


def is_signed_as(kind: str, signature: str | None, body: str) -> bool:
    """Tell whether the column is a copy of the body's signatures; exact, and as a rule without parsing.

    A key of canonical JSON can be found as text: inside a string its quotes would be escaped.
    """
    place = body.find(_KEY)
    if place < 0:
        return signature is None
    if kind in WITH_SIGNATURES and body.find(_KEY, place + 1) < 0:
        if signature is None:
            return body.startswith("[]", place + len(_KEY))
        plain = '"' not in signature and "\\" not in signature
        if plain and body.startswith('["' + signature.replace("\n", '","') + '"]', place + len(_KEY)):
            return True
    signatures = restore(body.encode()).get("signatures", [])
    return signature == ("\n".join(signatures) or None)

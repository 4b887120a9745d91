"""The chains within one transaction: each head is read once, and entries are written together.

Every statement that SQLite runs gives up the interpreter and has to win it back from the callers, so that few of them
make a group of works far cheaper than one after the other.
"""

from __future__ import annotations

import itertools
import sqlite3
from operator import itemgetter

from msgspec import Struct

from agent_gate.ledger.sqlite.migrate import PAGE_BYTES
from agent_gate.model.entry import GATE_PROJECT
from agent_gate.model.project import StateRef
from agent_gate.ports.examining import Heads

_STATUS = (
    "coalesce((SELECT e.status FROM entries e WHERE e.project = heads.project AND e.kind = 'project'"
    " ORDER BY e.seq DESC LIMIT 1), 'open')"
)
"""A project's status as its entries say; the column of the same name is a copy for whoever looks."""
SELECT_HEAD = f"SELECT seq, hash, state_version, snapshot_id, {_STATUS} FROM heads WHERE project = ?"  # noqa: S608
SELECT_HEADS = f"SELECT project, seq, hash, state_version, snapshot_id, {_STATUS} FROM heads WHERE project IN (?, ?)"  # noqa: S608
"""The project's, and beside it that of the gate itself, which says whether it is paused."""
MOVE_HEAD = "UPDATE heads SET seq = ?, hash = ?, state_version = ?, snapshot_id = ? WHERE project = ?"
INSERT_ENTRIES = (
    "INSERT INTO entries (project, seq, at, kind, run_id, call_id, request_id, agent_id, tool, signature, status,"
    " body, body_hash, prev_hash, hash) VALUES "
)
_ROW = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
INSERT_ENTRY = INSERT_ENTRIES + _ROW
_INSERT_DOCUMENT = "INSERT INTO blobs VALUES (?, ?) ON CONFLICT (hash) DO NOTHING"
_INSERT_SNAPSHOT = "INSERT INTO snapshots VALUES (?, ?, ?, ?, ?, ?)"
ROWS_AT_ONCE_MAX = 64
CHARS_AT_ONCE_MAX = 65_536
"""Of the bodies in one statement: each statement is kept, and keeps what it wrote last."""
GROUP_WAL_BYTES, WORK_WAL_BYTES, ENTRY_WAL_BYTES = 5 * PAGE_BYTES, 4 * PAGE_BYTES, 1_024
"""The pages that any group touches, those of work that is more than entries, and an entry without its body."""
_INSERTS = {size: INSERT_ENTRIES + ", ".join([_ROW] * size) for size in range(1, ROWS_AT_ONCE_MAX + 1)}
_body = itemgetter(11)


class Chain(Struct):
    """A project's chain as the works so far have left it."""

    project: str
    seq: int
    hash: bytes
    state_version: int
    snapshot_id: str | None
    status: str
    is_moved: bool = False
    """Since it was last written."""

    def is_at(self, state: StateRef) -> bool:
        return self.state_version == state.version and self.snapshot_id == state.snapshot_id


class Group:
    def __init__(self, cursor: sqlite3.Connection) -> None:
        self.cursor = cursor
        self.rows: list[tuple[object, ...]] = []
        """Entries that are still to be written."""
        self.documents: list[tuple[str, bytes]] = []
        self.snapshots: list[tuple[object, ...]] = []
        """States likewise."""
        self.wal_bytes = GROUP_WAL_BYTES
        """Bytes that the group adds to the write-ahead log: about."""
        self.moved: Heads = {}
        """The ends of the chains that were written."""
        self.claims: dict[tuple[str, str], tuple[str, str]] = {}
        """Made by the works so far."""
        self._chains: dict[str, Chain | None] = {}

    def chain(self, project: str) -> Chain | None:
        if project not in self._chains:
            self._chains[project] = None
            for row in self.cursor.execute(SELECT_HEADS, (project, GATE_PROJECT)).fetchall():
                self._chains[row[0]] = self._chains.get(row[0]) or Chain(*row)
        return self._chains[project]

    def begin(self, chain: Chain) -> None:
        """One that is new."""
        self._chains[chain.project] = chain

    def status(self, chain: Chain) -> str:
        """The project's, unless the whole gate is paused."""
        gate = self._chains.get(GATE_PROJECT)
        return chain.status if gate is None or gate.status == "open" else gate.status

    def write(self) -> None:
        """Whatever has been added and moved so far."""
        for at in range(0, len(self.rows), ROWS_AT_ONCE_MAX):
            rows = self.rows[at : at + ROWS_AT_ONCE_MAX]
            if sum(map(len, map(_body, rows))) <= CHARS_AT_ONCE_MAX:
                self.cursor.execute(_INSERTS[len(rows)], list(itertools.chain.from_iterable(rows)))
            else:
                self.cursor.executemany(INSERT_ENTRY, rows)
        self.rows.clear()
        if self.snapshots:
            self.cursor.executemany(_INSERT_DOCUMENT, self.documents)
            self.cursor.executemany(_INSERT_SNAPSHOT, self.snapshots)
            self.documents.clear()
            self.snapshots.clear()
        for one in self._chains.values():
            if one is not None and one.is_moved:
                place = (one.seq, one.hash, one.state_version, one.snapshot_id, one.project)
                self.cursor.execute(MOVE_HEAD, place)
                self.moved[one.project] = one.seq, one.hash
                one.is_moved = False

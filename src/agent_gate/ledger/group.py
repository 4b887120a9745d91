"""The chains within one transaction: each head is read once, and entries are written together.

Every statement that SQLite runs gives up the interpreter and has to win it back from the callers, so that few of them
make a group of works far cheaper than one after the other.
"""

from __future__ import annotations

import sqlite3
from itertools import chain
from operator import itemgetter

from agent_gate.model.entry import GATE_PROJECT, ProjectHead

SELECT_HEAD = "SELECT seq, hash, state_version, snapshot_id, status FROM heads WHERE project = ?"
SELECT_HEADS = "SELECT project, seq, hash, state_version, snapshot_id, status FROM heads WHERE project IN (?, ?)"
"""The project's, and beside it that of the gate itself, which says whether it is paused."""
MOVE_HEAD = "UPDATE heads SET seq = ?, hash = ?, state_version = ?, snapshot_id = ? WHERE project = ?"
INSERT_ENTRIES = (
    "INSERT INTO entries (project, seq, at, kind, run_id, call_id, request_id, agent_id, tool, signature, status,"
    " body, body_hash, prev_hash, hash) VALUES "
)
_ROW = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
INSERT_ENTRY = INSERT_ENTRIES + _ROW
ROWS_AT_ONCE_MAX = 64
CHARS_AT_ONCE_MAX = 65_536
"""Of the bodies in one statement: each statement is kept, and keeps what it wrote last."""
_INSERTS = {size: INSERT_ENTRIES + ", ".join([_ROW] * size) for size in range(1, ROWS_AT_ONCE_MAX + 1)}
_body = itemgetter(11)


class Group:
    def __init__(self, cursor: sqlite3.Connection) -> None:
        self.cursor = cursor
        self._heads: dict[str, ProjectHead | None] = {}
        self._moved: dict[str, None] = {}
        self._rows: list[tuple[object, ...]] = []

    def head(self, project: str) -> ProjectHead | None:
        """As the works before this one have left it."""
        if project not in self._heads:
            self._heads[project] = None
            for row in self.cursor.execute(SELECT_HEADS, (project, GATE_PROJECT)).fetchall():
                self._heads.setdefault(row[0], None)
                self._heads[row[0]] = self._heads[row[0]] or ProjectHead(*row)
        return self._heads[project]

    def status(self, head: ProjectHead) -> str:
        """The project's, unless the whole gate is paused."""
        gate = self.head(GATE_PROJECT)
        return head.status if gate is None or gate.status == "open" else gate.status

    def add(self, row: tuple[object, ...]) -> None:
        self._rows.append(row)

    def know(self, head: ProjectHead) -> None:
        self._heads[head.project] = head

    def move(self, head: ProjectHead) -> None:
        self.know(head)
        self._moved[head.project] = None

    def write(self) -> None:
        """Whatever has been added and moved so far."""
        for at in range(0, len(self._rows), ROWS_AT_ONCE_MAX):
            rows = self._rows[at : at + ROWS_AT_ONCE_MAX]
            if sum(map(len, map(_body, rows))) <= CHARS_AT_ONCE_MAX:
                self.cursor.execute(_INSERTS[len(rows)], list(chain.from_iterable(rows)))
            else:
                self.cursor.executemany(INSERT_ENTRY, rows)
        self._rows.clear()
        for project in self._moved:
            head = self._heads[project]
            assert head is not None
            self.cursor.execute(MOVE_HEAD, (head.seq, head.hash, head.state_version, head.snapshot_id, project))
        self._moved.clear()

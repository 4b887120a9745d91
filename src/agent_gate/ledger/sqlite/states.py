"""Projects' states, as entries back them: each version is read once, and one that no call settled is not read."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

import orjson

from agent_gate.ledger.sqlite import backing
from agent_gate.model.errors import StorageError
from agent_gate.model.project import INITIAL_SNAPSHOT, ProjectState
from agent_gate.model.tool import Json


class States:
    def __init__(self, reader: sqlite3.Connection) -> None:
        self._reader = reader
        self._known: dict[str, ProjectState] = {}
        self._made: dict[str, Mapping[str, Any]] = {}

    def current(self, project: str) -> ProjectState:
        row = self._row("SELECT state_version, snapshot_id FROM heads WHERE project = ?", project)
        if row is None:
            raise StorageError(f"project `{project}` does not exist", code=5003)
        version, snapshot_id = row
        known = self._known.get(project)
        if known and (known.version, known.snapshot_id) == (version, snapshot_id):
            return known
        state = self.initial(project) if snapshot_id is None else self.settled(project, version, snapshot_id)
        self._known[project] = state
        return state

    def at(self, project: str, version: int) -> ProjectState:
        if version == 0:
            return self.initial(project)
        row = self._row("SELECT snapshot_id FROM snapshots WHERE project = ? AND version = ?", project, version)
        if row is None:
            raise StorageError(f"project `{project}` has no version {version}", code=5003)
        return self.settled(project, version, row[0])

    def initial(self, project: str) -> ProjectState:
        return ProjectState(0, self._documents(project).get("initial_state", {}))

    def schema(self, project: str) -> Mapping[str, Json] | None:
        return self._documents(project).get("state_schema")

    def named(self, project: str, snapshot_id: str) -> ProjectState | None:
        if snapshot_id == INITIAL_SNAPSHOT:
            exists = self._row("SELECT 1 FROM heads WHERE project = ?", project) is not None
            return self.initial(project) if exists else None
        row = self._row("SELECT version FROM snapshots WHERE snapshot_id = ? AND project = ?", snapshot_id, project)
        return None if row is None else self.settled(project, row[0], snapshot_id)

    def settled(self, project: str, version: int, snapshot_id: str) -> ProjectState:
        """A state that a call has settled."""
        row = self._row(
            "SELECT b.data FROM snapshots s JOIN blobs b ON b.hash = s.document WHERE s.snapshot_id = ?", snapshot_id
        )
        if row is None:
            raise StorageError(f"the document of snapshot `{snapshot_id}` is missing", code=5004)
        encoded = bytes(row[0])
        if not backing.is_state(self._reader, project, version, snapshot_id, encoded):
            raise StorageError(
                f"snapshot `{snapshot_id}` of project `{project}` is not the one that was recorded",
                code=5004,
                suggestion="run `agent-gate verify`",
            )
        return ProjectState(version, orjson.loads(encoded), snapshot_id, encoded)

    def _documents(self, project: str) -> Mapping[str, Any]:
        """They are given when a project is made, and never change."""
        if project not in self._made:
            if self._row("SELECT 1 FROM heads WHERE project = ?", project) is None:
                return {}
            self._made[project] = backing.project_documents(self._reader, project)
        return self._made[project]

    def _row(self, sql: str, *values: object) -> Any:
        return self._reader.execute(sql, values).fetchone()

"""The storages that contract tests run against: a second one is one more line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from agent_gate.ledger.sqlite.storage import SqliteStorage
from agent_gate.ports.storage import Storage

STORAGES: Mapping[str, Callable[[Path], Storage]] = {"sqlite": lambda folder: SqliteStorage(folder / "a.db")}

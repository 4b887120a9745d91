"""The names of the files that make up one ledger, whether they exist yet or not."""

from __future__ import annotations

DEFAULT_LEDGER = "agent-gate.db"
LEDGER_VARIABLE = "AGENT_GATE_DB"
"""Names the ledger where a command line does not."""
ANCHOR, DIRECTORY = ".anchor", ".d"
_BESIDE = ("-wal", "-shm", "-journal", ANCHOR, f"{ANCHOR}.new", DIRECTORY)
"""Endings of what lies beside a database: SQLite's own files, the anchor, its draft, the directory of keys."""


def ledger_names(db: str) -> tuple[str, ...]:
    """The database and all that belongs to it: a journal that somebody else puts there would be played back into it."""
    return (db, *(db + end for end in _BESIDE))

"""The names of the files that make up one ledger, whether they exist yet or not."""

from __future__ import annotations

DEFAULT_LEDGER = "agent-gate.db"
ANCHOR, DIRECTORY = ".anchor", ".d"
_BESIDE = ("-wal", "-shm", "-journal", ANCHOR, f"{ANCHOR}.new", DIRECTORY)
"""What SQLite makes and removes beside a database, the anchor, its draft, and the directory of locks and keys."""


def ledger_names(db: str) -> tuple[str, ...]:
    """The database and all that belongs to it: a journal that somebody else puts there would be played back into it."""
    return (db, *(db + end for end in _BESIDE))

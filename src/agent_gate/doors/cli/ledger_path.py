"""Where the ledger of a command is."""

from __future__ import annotations

from pathlib import Path

from agent_gate.model.errors import StorageError

DB_VARIABLE = "AGENT_GATE_DB"
"""Names the ledger where --db does not."""


def database_path(db: str) -> Path:
    """Where the ledger is; it need not exist."""
    scheme, separator, _ = db.partition("://")
    if separator:
        # The rest of it may hold a password.
        raise StorageError(
            f"ledgers at `{scheme}://…` are not in this release",
            code=5001,
            suggestion="name a file with --db or AGENT_GATE_DB",
        )
    if not db or "\0" in db:
        raise StorageError(
            "the name of the database is empty or not one", code=5001, suggestion="name a file with --db"
        )
    return Path(db)


def existing_database(db: str) -> Path:
    """The ledger's file; a command that only looks never makes one."""
    path = database_path(db)
    try:
        found, is_file = path.exists(), path.is_file()
    except OSError as error:
        raise StorageError(f"cannot open `{db}`: {error.strerror}", code=5001, suggestion="check the path") from None
    if not found:
        raise StorageError(
            f"there is no database at `{db}`",
            code=5001,
            suggestion="make one with `agent-gate init`, or name it with --db",
        )
    if not is_file:
        raise StorageError(f"`{db}` is not a file", code=5001, suggestion="name the database with --db")
    return path

"""Brings a database to the schema of this release; Alembic is imported only where there is something to do."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from agent_gate.ledger.connection import connect
from agent_gate.model.errors import StorageError

HEAD = "0001"
PAGE_BYTES = 4096


def revision(connection: sqlite3.Connection) -> str | None:
    """The database's revision; None where no ledger was ever made in it."""
    try:
        row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    except sqlite3.OperationalError:
        return None
    return str(row[0]) if row else None


def upgrade(path: Path) -> bool:
    """Migrate where needed, and say whether it was; call it under the writer lock."""
    connection = connect(path)
    try:
        found = revision(connection)
        if found == HEAD:
            return False
        if found is None and connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise StorageError(
                f"`{path}` is a database of something else", code=5001, suggestion="name another file with --db"
            )
        if found is not None and found > HEAD:
            raise StorageError(
                f"`{path}` was written by a newer release (schema {found}, ours is {HEAD})",
                code=5001,
                suggestion="upgrade agent-gate",
            )
        if found is None:
            connection.execute("PRAGMA journal_mode = DELETE")
            connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
            connection.execute("VACUUM")
    finally:
        connection.close()
    _run_alembic(path)
    return True


def _run_alembic(path: Path) -> None:
    import sqlalchemy
    from alembic import command
    from alembic.config import Config

    engine = sqlalchemy.create_engine("sqlite://", creator=lambda: connect(path), poolclass=sqlalchemy.NullPool)
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    with engine.connect() as connection:
        config.attributes["connection"] = connection
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        command.upgrade(config, "heads")
        connection.commit()
    engine.dispose()

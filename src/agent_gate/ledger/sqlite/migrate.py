"""Brings a database to the schema of this release; Alembic is imported only where there is something to do."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from agent_gate.ledger.sqlite.connection import UNREADABLE, connect, connect_to_look
from agent_gate.model.errors import StorageError

HEAD = "0005"
"""The schema of the ledger itself; a service that owns tables has a branch beside it."""
HEADS = frozenset({HEAD, "home_assistant_0002"})
EARLIER = frozenset({"0001", "0002", "0003", "0004", "home_assistant_0001"})
PAGE_BYTES = 4096


def revisions(connection: sqlite3.Connection) -> frozenset[str]:
    """The database's revisions, one for each branch; none where no ledger was ever made in it."""
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    if "alembic_version" not in names or not names & {"entries", "heads"}:
        return frozenset()
    return frozenset(str(name) for (name,) in connection.execute("SELECT version_num FROM alembic_version"))


def is_newer(found: frozenset[str]) -> bool:
    """Tell whether a later release has been there: it left a revision that this one does not know."""
    return not found <= HEADS | EARLIER


def named(found: frozenset[str]) -> str:
    return ", ".join(sorted(found))


def refuse_what_is_not_ours(path: Path) -> None:
    """Before anything is made or narrowed around a file that may be anybody's."""
    journal = path.with_name(f"{path.name}-journal")
    if path.exists() and path.stat().st_size and not journal.exists():
        _look(connect(path, read_only=True), path)


def _look(connection: sqlite3.Connection, path: Path) -> frozenset[str]:
    """The revisions of the ledger in this file, none where one can be made; what is somebody else's is refused."""
    try:
        found = revisions(connection)
        if not found and connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise StorageError(
                f"`{path}` is a database of something else", code=5001, suggestion="name another file with --db"
            )
    except UNREADABLE as error:
        raise StorageError(
            f"cannot read `{path}`: {error}", code=5001, suggestion="restore it from a backup"
        ) from error
    finally:
        connection.close()
    if is_newer(found):
        raise StorageError(
            f"`{path}` was written by a newer release (schema {named(found)}, ours is {named(HEADS)})",
            code=5001,
            suggestion="upgrade agent-gate",
        )
    return found


def upgrade(path: Path) -> bool:
    """Migrate where needed, and say whether it was; call it under the writer lock."""
    found = _look(connect_to_look(path), path)
    if found == HEADS:
        return False
    if not found:
        _set_page_size(path)
    _run_alembic(path)
    return True


def _set_page_size(path: Path) -> None:
    connection = connect(path)
    try:
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        connection.execute("VACUUM")
    finally:
        connection.close()


def _run_alembic(path: Path) -> None:
    import sqlalchemy
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    engine = sqlalchemy.create_engine("sqlite://", creator=lambda: connect(path), poolclass=sqlalchemy.NullPool)
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    try:
        with engine.connect() as connection:
            config.attributes["connection"] = connection
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            command.upgrade(config, "heads")
            connection.commit()
    except (sqlalchemy.exc.SQLAlchemyError, CommandError) as error:
        raise StorageError(
            f"cannot bring `{path}` to schema {HEAD}: {getattr(error, 'orig', None) or error}",
            suggestion="nothing was changed; free space or mend the disk and try again",
        ) from error
    finally:
        engine.dispose()

"""The ledger of one command: where it is, and opening it to look back or to add a fact."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from agent_gate.history.reader import open_reader
from agent_gate.model.errors import StorageError
from agent_gate.ports.reading import Reader

if TYPE_CHECKING:
    from agent_gate.doors.cli.writing import Work

Result = TypeVar("Result")


def database_path(db: str) -> Path:
    """Return the place of the ledger, which need not exist."""
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
    """Return the ledger's file; a command that only looks never makes one."""
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


@contextmanager
def reading(db: str) -> Iterator[Reader]:
    with closing(open_reader(existing_database(db))) as reader:
        yield reader


def writing(db: str, work: Work[Result]) -> Result:
    """Do the work on the ledger that is there, and close it again."""
    # 60 ms (asyncio, cryptography and all that writes), half of a command that turns out to look back only.
    from agent_gate.doors.cli.writing import do  # noqa: PLC0415

    return do(existing_database(db), work)

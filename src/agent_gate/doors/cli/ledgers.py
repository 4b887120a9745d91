"""The ledger of one command: where it is, and opening it to look back or to add a fact."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from agent_gate.history.archive import open_archive
from agent_gate.model.errors import StorageError

if TYPE_CHECKING:
    from agent_gate.ports.ledger import Ledger
    from agent_gate.ports.reading import Reader
    from agent_gate.ports.surroundings import Clock, Ids

Result = TypeVar("Result")
Work: TypeAlias = "Callable[[Ledger, Clock, Ids], Awaitable[Result]]"


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
    with closing(open_archive(existing_database(db)).reader()) as reader:
        yield reader


def writing(db: str, work: Work[Result]) -> Result:
    """Do the work on the ledger that is there, and close it again."""
    # Looking back does without them, which makes a third of the start of `list-runs`.
    import asyncio  # noqa: PLC0415

    from agent_gate.system.clock import RandomIds, SystemClock  # noqa: PLC0415

    archive = open_archive(existing_database(db))
    archive.reader().close()  # a file of something else, or of another release, is refused before anything is made

    async def do() -> Result:
        clock, ids = SystemClock(), RandomIds()
        ledger = archive.open(clock, ids)
        try:
            return await work(ledger, clock, ids)
        finally:
            await ledger.close()

    return asyncio.run(do())

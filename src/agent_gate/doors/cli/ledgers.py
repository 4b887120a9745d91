"""Opens the ledger for one command: to look back, or to add a fact."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from agent_gate.doors.cli.ledger_path import existing_database
from agent_gate.history.archive import open_archive

if TYPE_CHECKING:
    from agent_gate.ports import Clock, Ids, Ledger
    from agent_gate.ports.reading import Reader

Result = TypeVar("Result")
Work: TypeAlias = "Callable[[Ledger, Clock, Ids], Awaitable[Result]]"


@contextmanager
def reading(db: str) -> Iterator[Reader]:
    with closing(open_archive(existing_database(db)).reader()) as reader:
        yield reader


def writing(db: str, work: Work[Result]) -> Result:
    """Do the work on the ledger that is there, and close it again."""
    import asyncio  # looking back does without

    from agent_gate.system.clock import RandomIds, SystemClock

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

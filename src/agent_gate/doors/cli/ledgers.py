"""Opens the ledger for one command: to look back, or to add a fact."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from agent_gate.doors.cli.ledger_path import existing_database
from agent_gate.ledger.sqlite.reader import open_reader

if TYPE_CHECKING:
    from agent_gate.ledger.sqlite.ledger import SqliteLedger
    from agent_gate.ports import Clock, Ids

Result = TypeVar("Result")
Work: TypeAlias = "Callable[[SqliteLedger, Clock, Ids], Awaitable[Result]]"


@contextmanager
def reading(db: str) -> Iterator[sqlite3.Connection]:
    with closing(open_reader(existing_database(db))) as reader:
        yield reader


def writing(db: str, work: Work[Result]) -> Result:
    """Do the work on the ledger that is there, and close it again."""
    import asyncio  # looking back does without

    from agent_gate.ledger.sqlite.ledger import SqliteLedger
    from agent_gate.system.clock import RandomIds, SystemClock

    path = existing_database(db)
    with closing(open_reader(path)):
        pass  # a file of something else, or of another release, is refused before anything is made beside it

    async def do() -> Result:
        clock, ids = SystemClock(), RandomIds()
        ledger = SqliteLedger(path, clock, ids)
        try:
            return await work(ledger, clock, ids)
        finally:
            await ledger.close()

    return asyncio.run(do())

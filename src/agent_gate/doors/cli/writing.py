"""Work of one command on a ledger that is there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias, TypeVar

from agent_gate.history.archive import open_archive
from agent_gate.ports.ledger import Ledger
from agent_gate.ports.surroundings import Clock, Ids
from agent_gate.system.clock import RandomIds, SystemClock

Result = TypeVar("Result")
Work: TypeAlias = Callable[[Ledger, Clock, Ids], Awaitable[Result]]


def do(path: Path, work: Work[Result]) -> Result:
    """Do the work on the ledger, and close it again."""
    archive = open_archive(path)
    archive.reader().close()  # a file of something else, or of another release, is refused before anything is made

    async def on_ledger() -> Result:
        clock, ids = SystemClock(), RandomIds()
        ledger = archive.open(clock, ids)
        try:
            return await work(ledger, clock, ids)
        finally:
            await ledger.close()

    return asyncio.run(on_ledger())

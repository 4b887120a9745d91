"""Earlier states for tools: each question in a thread of its own, a few at once, none for long."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from agent_gate.history import state
from agent_gate.ledger.sqlite.reader import one_moment, open_reader
from agent_gate.model.errors import StorageError
from agent_gate.model.limits import READ_S, READS_AT_ONCE_MAX
from agent_gate.model.tool import Json

Answer = TypeVar("Answer")

_STEPS_BETWEEN_LOOKS = 10_000
"""Of SQLite's machine: well under a millisecond."""


class PastStates:
    """Of the projects of one ledger."""

    def __init__(self, db: str | Path) -> None:
        self._db = Path(db)
        self._turns = asyncio.Semaphore(READS_AT_ONCE_MAX)

    async def at(self, project: str, version: int | None, snapshot_id: str | None) -> Json:
        return await self._ask(lambda reader: state.show(reader, project, version, snapshot_id).to_json())

    async def history(self, project: str, limit: int) -> Json:
        return await self._ask(
            lambda reader: {"versions": [change.to_json() for change in state.history(reader, project, limit)]}
        )

    async def diff(self, project: str, before: int, after: int | None) -> Json:
        def compared(reader: sqlite3.Connection) -> Json:
            with one_moment(reader):
                last = state.show(reader, project).version if after is None else after
                return {"from": before, "to": last, "diff": state.diff(reader, project, before, last)}

        return await self._ask(compared)

    async def _ask(self, question: Callable[[sqlite3.Connection], Answer]) -> Answer:
        async with self._turns:
            return await asyncio.to_thread(self._answer, question)

    def _answer(self, question: Callable[[sqlite3.Connection], Answer]) -> Answer:
        ends_at = time.monotonic() + READ_S
        with closing(open_reader(self._db)) as reader:
            reader.set_progress_handler(lambda: time.monotonic() > ends_at, _STEPS_BETWEEN_LOOKS)
            try:
                return question(reader)
            except StorageError:
                if time.monotonic() <= ends_at:
                    raise
                raise StorageError(f"the answer took longer than {READ_S:.0f} s", code=5003) from None

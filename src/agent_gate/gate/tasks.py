"""Tasks that go on by themselves, until whoever started them waits for them or ends them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


class Tasks:
    """Keeps each task until it has ended: nobody else may hold it."""

    def __init__(self) -> None:
        self.running: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        task = asyncio.create_task(work)
        self.running.add(task)
        task.add_done_callback(self.running.discard)
        return task

    def cancel(self) -> None:
        for task in self.running:
            task.cancel()

    async def wait(self) -> None:
        while self.running:
            await asyncio.wait(self.running)

"""A child process whose streams and end are waited for by the event loop itself.

With asyncio's own, the end of a process waits for the end of its streams, which one that is cut off never sends.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Sequence

from agent_gate.model.bounds import SHELL_CHUNK_BYTES


class Child:
    def __init__(self, argv: Sequence[str], inherited: Sequence[int]) -> None:
        self._process = subprocess.Popen(  # noqa: S603 -- judged by the gate
            argv,
            bufsize=0,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=inherited,
            start_new_session=True,
            cwd="/",
            env={},
        )
        self.pid = self._process.pid
        self.handle = os.pidfd_open(self.pid)
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self.stdout, self.stderr = self._process.stdout.fileno(), self._process.stderr.fileno()

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    async def end(self) -> int:
        """Its return code, when it has one; negative for a signal."""
        if not self.has_ended:
            await readable(self.handle)
        return self._process.wait()

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        """Wait until it has ended."""
        os.close(self.handle)
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()


async def readable(number: int) -> None:
    """Wait until there is something to read, or the end of it."""
    loop = asyncio.get_running_loop()
    arrived = asyncio.Event()
    loop.add_reader(number, arrived.set)
    try:
        await arrived.wait()
    finally:
        loop.remove_reader(number)


async def read_some(number: int) -> bytes:
    """Read what there is; nothing at the end."""
    await readable(number)
    return os.read(number, SHELL_CHUNK_BYTES)

"""Runs a command in its sandbox: output streamed within bounds, time and growth watched, and nothing left behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from agent_gate.model.bounds import SHELL_CHUNK_BYTES, SHELL_WATCH_INTERVAL_S, SHELL_WRITTEN_BYTES_MAX
from agent_gate.model.errors import ToolError
from agent_gate.sandbox import tree
from agent_gate.sandbox.child import Child, read_some
from agent_gate.sandbox.command import Command, Finished, Limits
from agent_gate.sandbox.growth import Growth
from agent_gate.sandbox.launch import Launch
from agent_gate.sandbox.limits import limit
from agent_gate.sandbox.outlived import OUTLIVED
from agent_gate.sandbox.pids import ProcessBound, place_for_bounds

_START_TIMEOUT_S = 30.0
_END_TIMEOUT_S = 5.0
_NICE = 10
"""A pool of its own: starting other programs does not take the gate its turn."""


async def run(command: Command, launch: Launch) -> Finished:
    """ToolError 2004, 2005 or 2003 where it is cut off; 2006 where it never began."""
    running = _Running(command, launch)
    try:
        return await running.result()
    finally:
        await running.end()


class _Running:
    def __init__(self, command: Command, launch: Launch) -> None:
        self._command, self._launch = command, launch
        self._outer: Child | None = None
        self._inner = -1
        """A handle on the first process inside, with whose end all of its namespace ends."""
        self._bound: ProcessBound | None = None
        self._reports = b""

    async def result(self) -> Finished:
        limits = self._command.limits
        outer = await self._start()
        output = _Output(limits.output_bytes)
        watch = asyncio.ensure_future(self._watch(outer))
        ends = [
            asyncio.ensure_future(work)
            for work in (output.read(outer.stdout, output.stdout), output.read(outer.stderr, output.stderr))
        ]
        try:
            async with asyncio.timeout(limits.timeout_s):
                await _first_failure(watch, ends)
                code = await outer.end()
        except TimeoutError:
            if not self._command.follows:
                raise _timed_out(limits) from None
            return Finished(0, bytes(output.stdout), bytes(output.stderr), timed_out=True)
        finally:
            for task in (watch, *ends):
                task.cancel()
            await asyncio.wait((watch, *ends))
        return Finished(await self._return_code(code, output), bytes(output.stdout), bytes(output.stderr))

    async def _start(self) -> Child:
        launch = self._launch
        try:
            self._outer = Child(launch.argv, launch.inherited)
        except OSError as error:
            raise _not_begun(str(error.strerror)) from None
        finally:
            launch.handed_over()
        try:
            await self._hold_back(self._outer)
        except (OSError, TimeoutError) as error:
            raise _not_begun(str(error) or "it took too long") from None
        try:
            launch.begin()
        except BrokenPipeError:  # it has ended since it told of its first process: what it was to show is not there
            raise _not_begun(await self._last_words()) from None
        return self._outer

    async def _hold_back(self, outer: Child) -> None:
        """Put limits on what has not begun yet."""
        launch, command, pid = self._launch, self._command, outer.pid
        if launch.tells_pid:
            OUTLIVED.hold(outer.pid, outer.handle)
            pid = await self._told_pid()
            self._inner = os.pidfd_open(pid)
            OUTLIVED.hold(outer.pid, self._inner)
            limit(pid, command.limits)
        if command.starts_programs:
            os.setpriority(os.PRIO_PROCESS, pid, _NICE)
            base = place_for_bounds()
            if base is not None:
                self._bound = ProcessBound(base, command.limits.processes + launch.besides)
                self._bound.add(pid)

    async def _told_pid(self) -> int:
        """The first process inside, as the outer one reports it."""
        async with asyncio.timeout(_START_TIMEOUT_S):
            while self._report("child-pid") is None:
                told = await read_some(self._launch.reports)
                if not told:
                    raise _not_begun(await self._last_words())
                self._reports += told
        return int(self._report("child-pid"))

    async def _last_words(self) -> str:
        """Collect what the outer process said before it ended without a report."""
        assert self._outer is not None
        said = b""
        while len(said) < SHELL_CHUNK_BYTES and (chunk := await read_some(self._outer.stderr)):
            said += chunk
        return (said.decode(errors="replace").strip().splitlines() or ["it said nothing"])[-1]

    def _report(self, key: str) -> Any:
        found = None
        for line in self._reports.splitlines():
            with suppress(ValueError):
                found = json.loads(line).get(key, found)
        return found

    async def _watch(self, outer: Child) -> None:
        """Only what starts other processes can outgrow the limits that hold for each of them."""
        limits = self._command.limits
        processes_max = limits.processes + self._launch.besides
        growth = Growth(self._command.scratch, limits.changed_bytes) if self._command.scratch else None
        while self._command.starts_programs:
            await asyncio.sleep(SHELL_WATCH_INTERVAL_S)
            size = tree.measure(outer.pid, processes_max)
            if growth is not None:
                await asyncio.to_thread(growth.check)
            for what, much, most in (
                ("processes", size.processes, processes_max),
                ("bytes of memory", size.memory_bytes, limits.memory_bytes),
                ("bytes written", size.written_bytes, SHELL_WRITTEN_BYTES_MAX),
            ):
                if much > most:
                    raise ToolError(f"the command was ended: it had more than {most} {what}", suggestion="ask for less")

    async def _return_code(self, code: int, output: _Output) -> int:
        while told := await read_some(self._launch.reports):
            self._reports += told
        reported = self._report("exit-code")
        if reported is None:
            said = output.stderr.decode(errors="replace").strip().splitlines()
            raise _not_begun(self._report("failed") or (said or [f"exit code {code}"])[-1])
        return int(reported)

    async def end(self) -> None:
        """Whatever is left of it."""
        outer = self._outer
        try:
            if outer is not None and not outer.has_ended:
                await self._kill(outer)
        finally:
            if self._inner >= 0:
                os.close(self._inner)
                self._inner = -1
            self._launch.close()
            if outer is not None:
                OUTLIVED.let_go(outer.pid)
                outer.close()
            if self._bound is not None:
                await asyncio.to_thread(self._bound.close)

    async def _kill(self, outer: Child) -> None:
        if self._inner >= 0:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._inner, signal.SIGKILL)
            # The outer process reaps it, and ends by itself.
            with suppress(TimeoutError):
                async with asyncio.timeout(_END_TIMEOUT_S):
                    await outer.end()
        else:
            await asyncio.to_thread(tree.kill, outer.pid)
        outer.kill()
        await outer.end()


async def _first_failure(watch: asyncio.Future[None], ends: Sequence[asyncio.Future[None]]) -> None:
    """Returns when all of the second have ended, and raises as soon as one of any has failed."""
    waiting: set[asyncio.Future[None]] = {watch, *ends}
    while any(not task.done() for task in ends):
        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()


class _Output:
    """Both streams, as far as the bound on their sum."""

    def __init__(self, bytes_max: int) -> None:
        self._left = self._bytes_max = bytes_max
        self.stdout, self.stderr = bytearray(), bytearray()

    async def read(self, stream: int, kept: bytearray) -> None:
        while chunk := await read_some(stream):
            self._left -= len(chunk)
            if self._left < 0:
                raise ToolError(
                    f"the command printed more than max_output_bytes ({self._bytes_max})",
                    code=2005,
                    suggestion="ask it for less, or raise max_output_bytes of shell.run",
                )
            kept += chunk


def _timed_out(limits: Limits) -> ToolError:
    return ToolError(
        f"the command did not end within {limits.timeout_s:g} s, and was ended with all that it had started",
        code=2004,
        suggestion="ask it for less, or raise timeout_seconds of shell.run",
    )


def _not_begun(why: str) -> ToolError:
    return ToolError(f"the command could not be started: {why[:500]}", code=2006, suggestion="run `agent-gate doctor`")

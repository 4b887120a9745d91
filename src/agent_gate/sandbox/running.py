"""Runs a command in its sandbox: output streamed within bounds, time and growth watched, and nothing left behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from contextlib import suppress
from typing import Any

from agent_gate.model.errors import ToolError
from agent_gate.model.limits import SHELL_WATCH_INTERVAL_S, SHELL_WRITTEN_BYTES_MAX
from agent_gate.sandbox import tree
from agent_gate.sandbox.command import Command, Finished, Limits
from agent_gate.sandbox.launch import Launch
from agent_gate.sandbox.limits import limit

_CHUNK_BYTES = 65_536
_START_TIMEOUT_S = 30.0
_END_TIMEOUT_S = 5.0
_REPORT_BYTES_MAX = 65_536


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
        self._outer: asyncio.subprocess.Process | None = None
        self._inner_pid = 0
        self._inner = -1
        """A handle on the first process inside, with whose end all of its namespace ends."""
        self._reports = b""

    async def result(self) -> Finished:
        limits = self._command.limits
        outer = await self._start()
        output = _Output(outer, limits.output_bytes)
        # The first of them to fail, or the second to end, is the end.
        work = [asyncio.ensure_future(self._watch()), asyncio.ensure_future(output.read_all())]
        try:
            async with asyncio.timeout(limits.timeout_s):
                done, _ = await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
        except TimeoutError:
            raise _timed_out(limits) from None
        finally:
            for task in work:
                task.cancel()
            await asyncio.wait(work)
        return Finished(self._return_code(outer, output), bytes(output.stdout), bytes(output.stderr))

    async def _start(self) -> asyncio.subprocess.Process:
        launch = self._launch
        try:
            self._outer = await asyncio.create_subprocess_exec(
                *launch.argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                pass_fds=launch.inherited,
                start_new_session=True,
                cwd="/",
                env={},
            )
        except OSError as error:
            raise _not_begun(str(error.strerror)) from None
        finally:
            launch.handed_over()
        if launch.starts_on >= 0:
            async with asyncio.timeout(_START_TIMEOUT_S):
                self._inner_pid = await self._told_pid()
            if self._inner_pid:
                with suppress(ProcessLookupError):
                    self._inner = os.pidfd_open(self._inner_pid)
                    limit(self._inner_pid, self._command.limits)
            launch.begin()
        return self._outer

    async def _told_pid(self) -> int:
        """The first process inside, as the outer one reports it; 0 where it ends without."""
        loop = asyncio.get_running_loop()
        while b"child-pid" not in self._reports:
            readable = loop.create_future()
            loop.add_reader(self._launch.reports, lambda: readable.done() or readable.set_result(None))
            try:
                await readable
            finally:
                loop.remove_reader(self._launch.reports)
            told = os.read(self._launch.reports, _REPORT_BYTES_MAX)
            if not told:
                return 0
            self._reports += told
        return int(self._report("child-pid") or 0)

    def _report(self, key: str) -> Any:
        found = None
        for line in self._reports.decode(errors="replace").replace("}{", "}\n{").splitlines():
            with suppress(ValueError):
                found = json.loads(line).get(key, found)
        return found

    async def _watch(self) -> None:
        """Only what starts other processes can outgrow the limits that hold for each of them."""
        limits, outer = self._command.limits, self._outer
        if not self._command.starts_programs or outer is None:
            await asyncio.Event().wait()
            return
        while True:
            await asyncio.sleep(SHELL_WATCH_INTERVAL_S)
            # The outer process and the first one inside are not the command's.
            size = tree.measure(outer.pid, limits.processes + 2)
            for what, much, most in (
                ("processes", size.processes, limits.processes + 2),
                ("bytes of memory", size.memory_bytes, limits.memory_bytes),
                ("bytes written", size.written_bytes, SHELL_WRITTEN_BYTES_MAX),
            ):
                if much > most:
                    raise ToolError(f"the command was ended: it had more than {most} {what}", suggestion="ask for less")

    def _return_code(self, outer: asyncio.subprocess.Process, output: _Output) -> int:
        code = outer.returncode
        assert code is not None
        with suppress(BlockingIOError):
            os.set_blocking(self._launch.reports, False)
            self._reports += os.read(self._launch.reports, _REPORT_BYTES_MAX)
        told = self._report("exit-code")
        if told is None:
            why = self._report("failed")
            said = (
                [why] if why else output.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {code}"]
            )
            raise _not_begun(said[-1])
        return int(told)

    async def end(self) -> None:
        """Whatever is left of it."""
        outer = self._outer
        try:
            if outer is not None and outer.returncode is None:
                await self._kill(outer)
        finally:
            if self._inner >= 0:
                os.close(self._inner)
                self._inner = -1
            self._launch.close()

    async def _kill(self, outer: asyncio.subprocess.Process) -> None:
        if self._inner >= 0:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._inner, signal.SIGKILL)
            # The outer process reaps it, and ends by itself.
            with suppress(TimeoutError):
                async with asyncio.timeout(_END_TIMEOUT_S):
                    await outer.wait()
        else:
            await asyncio.to_thread(tree.kill, outer.pid)
        with suppress(ProcessLookupError):
            outer.kill()
        await outer.wait()


class _Output:
    """Both streams, as far as the bound on their sum."""

    def __init__(self, process: asyncio.subprocess.Process, bytes_max: int) -> None:
        self._process, self._left = process, bytes_max
        self._bytes_max = bytes_max
        self.stdout, self.stderr = bytearray(), bytearray()

    async def read_all(self) -> None:
        process = self._process
        assert process.stdout is not None
        assert process.stderr is not None
        await asyncio.gather(
            self._read(process.stdout, self.stdout), self._read(process.stderr, self.stderr), process.wait()
        )

    async def _read(self, stream: asyncio.StreamReader, kept: bytearray) -> None:
        while chunk := await stream.read(_CHUNK_BYTES):
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

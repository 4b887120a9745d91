"""Runs exactly what was looked at, once it has been judged: for good, or with all that it writes thrown away."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

from agent_gate.model.bounds import (
    FILE_JOBS_MAX,
    FILE_THREADS_MAX,
    GIT_COUNT_S,
    OUTPUT_BYTES_MAX,
    SHELL_MEMORY_BYTES_MAX,
    SHELL_PROCESSES_MAX,
    SHELL_TMP_BYTES_MAX,
)
from agent_gate.model.call import BoundCall
from agent_gate.model.errors import Problem, ToolError
from agent_gate.model.policy import Policy
from agent_gate.model.tool import Json
from agent_gate.model.visible import visible
from agent_gate.ports.tools import Failed, Proposal
from agent_gate.resolve.copies import Copies
from agent_gate.resolve.threads import FileThreads
from agent_gate.sandbox.choice import Sandbox
from agent_gate.sandbox.command import Access, Command, Finished, Limits
from agent_gate.sandbox.layering import in_layers, written
from agent_gate.sandbox.running import run
from agent_gate.services.shell.environment import environment
from agent_gate.services.shell.failing import failure
from agent_gate.services.shell.hints import hint
from agent_gate.services.shell.layering import IN_LAYERS, Layering
from agent_gate.services.shell.looking import Looked
from agent_gate.services.shell.proposal import FileProposal
from agent_gate.services.shell.viewing import Viewer
from agent_gate.system.sharing import Places

THREADS = FileThreads(FILE_THREADS_MAX, FILE_JOBS_MAX)


class Act:
    """One command, judged and ready to run."""

    def __init__(
        self,
        looked: Looked,
        args: Mapping[str, Json],
        policy: Policy,
        viewer: Viewer,
        sandbox: Sandbox | None,
        places: Places,
        layering: Layering,
        fail_on: str,
        copies: Copies | None = None,
    ) -> None:
        """`copies` are those of the simulation that a preview is a step of."""
        self._fail_on, self._copies = fail_on, copies
        self._looked, self._args, self._policy = looked, args, policy
        self._viewer, self._sandbox, self._places, self._layering = viewer, sandbox, places, layering

    async def __call__(self, _: BoundCall) -> Json | Failed | Proposal:
        if self._looked.resources["writes"] in IN_LAYERS:
            return await self._propose()
        async with self._command() as command:
            finished = await self._run(command)
            result = _result(finished, command.view.left_out + await self._left_out_of_history(command))
            problem = self._failure(finished)
            return result if problem is None else Failed(result, problem)

    def _failure(self, finished: Finished) -> Problem | None:
        return failure(self._looked.argv[0], finished.return_code, self._fail_on)

    async def _left_out_of_history(self, command: Command) -> int:
        """Count the paths that git was kept from showing; 0 where it cannot say so soon, which harms nothing else."""
        counting = self._looked.left_out
        if counting is None:
            return 0
        limits = replace(command.limits, timeout_s=min(command.limits.timeout_s, GIT_COUNT_S))
        try:
            listed = await self._run(replace(command, argv=counting.words, limits=limits))
        except ToolError:
            return 0
        return counting.count(listed.stdout)

    async def preview(self, _: BoundCall) -> Proposal:
        """Tell what it would do; of the changes to files that it proposes, none is made."""
        assert self._sandbox is not None
        if not self._sandbox.layers:
            raise ToolError(
                f"the sandbox {self._sandbox.name} cannot show changes without making them",
                code=2006,
                suggestion="install bubblewrap 0.11 or newer",
            )
        return await self._propose()

    async def _propose(self) -> Proposal:
        """Run the command with all that it writes kept apart."""
        assert self._sandbox is not None
        async with self._command() as command:
            writable = [place.path for place in command.view.places if place.access is Access.WRITE]
            scratch = await self._layering.scratch(self._sandbox, writable, THREADS, self._copies)
            try:
                layered, started_ns = await THREADS.run(partial(_layered, command, scratch.path))
                finished = await self._run_apart(layered)
                reading = partial(self._layering.read, written(layered), started_ns, self._policy, self._copies)
                found = await THREADS.run(reading)
                hints = await THREADS.run(partial(hint, finished, writable))
                result = {**_result(finished, layered.view.left_out), **hints}
                return await THREADS.run(
                    partial(
                        FileProposal,
                        result,
                        found,
                        THREADS,
                        self._layering.file_list,
                        scratch,
                        self._failure(finished),
                        self._copies,
                    )
                )
            except BaseException:
                # Nobody waits for what was written any more; a thread that still reads it finds nothing, and ends.
                scratch.remove()
                raise

    async def _run_apart(self, command: Command) -> Finished:
        try:
            return await self._run(command)
        except ToolError as error:
            problem = error.problem
            raise ToolError(
                f"{problem.detail}; nothing was written", code=problem.code, suggestion=problem.suggestion
            ) from None

    async def _run(self, command: Command) -> Finished:
        assert self._sandbox is not None
        async with self._places.one():
            return await run(command, self._sandbox.wrap(command))

    @asynccontextmanager
    async def _command(self) -> AsyncIterator[Command]:
        looked = self._looked
        section, use, executable = self._policy.guards.shell_run, looked.use, looked.executable
        assert section is not None
        assert use is not None
        assert executable is not None
        _refuse_bad_directory(looked)
        used = [target.descriptor for target in looked.targets.values()]
        view, held = await THREADS.run(partial(self._viewer.view, looked, use), *used)
        try:
            yield Command(
                executable.path,
                executable.descriptor.number,
                looked.words_run,
                looked.cwd,
                _limits(self._policy, self._args.get("timeout")),
                view,
                environment(self._args.get("env") or {}, section, use),
                use.starts_programs,
                follows=use.follows,
            )
        finally:
            for descriptor in held:
                descriptor.leave()


def _refuse_bad_directory(looked: Looked) -> None:
    here = looked.targets.get(".")
    if "cwd" in looked.resources and here is not None and here.kind != "directory":
        kind = "does not exist" if here.kind == "absent" else f"is a {here.kind}"
        raise ToolError(f"cwd `{visible(here.path)}` {kind}", code=2002, suggestion="name a directory")


def _limits(policy: Policy, timeout_s: float | None) -> Limits:
    """The agent can lower the time, and nothing else."""
    section, files = policy.guards.shell_run, policy.guards.fs_write
    assert section is not None
    return Limits(
        timeout_s=section.timeout_seconds if timeout_s is None else min(timeout_s, section.timeout_seconds),
        output_bytes=min(section.max_output_bytes, OUTPUT_BYTES_MAX),
        file_bytes=files.max_size_bytes if files else SHELL_TMP_BYTES_MAX,
        memory_bytes=SHELL_MEMORY_BYTES_MAX,
        processes=SHELL_PROCESSES_MAX,
        changed_bytes=section.max_changed_bytes,
    )


def _result(finished: Finished, left_out: int = 0) -> dict[str, Json]:
    """Collect what a command tells, however it ended."""
    result: dict[str, Json] = {"return_code": finished.return_code}
    if left_out:
        result["left_out"] = left_out
    escaped = []
    for name, data in (("stdout", finished.stdout), ("stderr", finished.stderr)):
        try:
            result[name] = data.decode()
        except UnicodeDecodeError:
            # What is not UTF-8 in it stands as \xNN.
            result[name] = data.decode(errors="backslashreplace")
            escaped.append(name)
    if finished.timed_out:
        result["timed_out"] = True
    return {**result, "escaped": escaped} if escaped else result


def _layered(command: Command, scratch: str) -> tuple[Command, int]:
    """The command over its layers, and the moment of this by the clock that stamps files."""
    layered = in_layers(command, scratch)
    return replace(layered, scratch=scratch), os.stat(tempfile.mkdtemp(dir=scratch)).st_ctime_ns

"""The service behind `shell.run`: binds a command to what it leads to, and runs exactly that."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial

from agent_gate.bindings.descriptors import Descriptor
from agent_gate.bindings.layers import changes
from agent_gate.bindings.paths import PathResolver
from agent_gate.bindings.threads import FileThreads
from agent_gate.model.builtin import SHELL_RUN
from agent_gate.model.call import BoundCall, CallRequest
from agent_gate.model.errors import ToolError
from agent_gate.model.limits import (
    FILE_JOBS_MAX,
    FILE_THREADS_MAX,
    OUTPUT_BYTES_MAX,
    SHELL_COMMANDS_MAX,
    SHELL_MEMORY_BYTES_MAX,
    SHELL_PROCESSES_MAX,
    SHELL_TMP_BYTES_MAX,
)
from agent_gate.model.policy import Policy
from agent_gate.model.tool import Json, ToolDeclaration
from agent_gate.policy.guards.commands import NO_SANDBOX
from agent_gate.policy.guards.paths import printable
from agent_gate.policy.guards.surroundings import Surroundings
from agent_gate.ports import Binding, Hand, Judge
from agent_gate.sandbox.choice import Choice, Sandbox
from agent_gate.sandbox.command import Access, Command, Finished, Limits
from agent_gate.sandbox.running import run
from agent_gate.services.shell.environment import environment
from agent_gate.services.shell.looking import Looked, look
from agent_gate.services.shell.viewing import Viewer
from agent_gate.toolkit import make_hand

_THREADS = FileThreads(FILE_THREADS_MAX, FILE_JOBS_MAX)


class ShellService:
    name = "shell"
    dependencies: Sequence[str] = ()

    def __init__(
        self,
        working_dir: str,
        resolver: PathResolver,
        around: Callable[[Policy], Surroundings],
        choice: Choice | None = None,
    ) -> None:
        """`around` tells where the gate stands under a policy."""
        self._working_dir, self._resolver, self._around = working_dir, resolver, around
        self._choice = choice or Choice()
        self._running = 0

    def tools(self) -> Sequence[ToolDeclaration]:
        return (SHELL_RUN,)

    def hands(self) -> Sequence[Hand]:
        return [make_hand(SHELL_RUN, self.name, bind=self._bind)]

    async def start(self) -> None: ...

    async def execute(self, tool_name: str, args: Mapping[str, Json]) -> Json:  # noqa: ARG002 -- the service's shape
        raise ToolError(f"`{tool_name}` runs what was judged: call it through the gate")

    async def health_check(self) -> bool:
        return await self._choice.pick("auto") is not None

    async def close(self) -> None: ...

    async def _bind(self, _: CallRequest, args: Mapping[str, Json], judge: Judge) -> Binding:
        policy = judge.policy
        looked = await _THREADS.run(partial(look, args, policy, self._resolver, self._working_dir))
        section = policy.guards.shell_run
        sandbox = await self._choice.pick(section.sandbox) if section is not None else None
        looked.resources["sandbox"] = sandbox.name if sandbox is not None else NO_SANDBOX
        act = Act(self, looked, args, policy, sandbox)
        return Binding((looked.signature,), looked.resources, act, release=looked.release, found=looked.found)

    @contextmanager
    def place(self) -> Iterator[None]:
        """One of the places for commands that run at once."""
        if self._running >= SHELL_COMMANDS_MAX:
            raise ToolError(f"{self._running} commands run already", code=2006, suggestion="try again later")
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1

    def viewer(self, policy: Policy) -> Viewer:
        return Viewer(policy, self._around(policy))


class Act:
    """Runs exactly what was looked at, once it has been judged."""

    def __init__(
        self, service: ShellService, looked: Looked, args: Mapping[str, Json], policy: Policy, sandbox: Sandbox | None
    ) -> None:
        self._service, self._looked, self._args, self._policy = service, looked, args, policy
        self._sandbox = sandbox

    async def __call__(self, _: BoundCall) -> Json:
        async with self._command() as command:
            return _result(await self._run(command))

    async def preview(self, _: BoundCall) -> Json:
        """The same, with all that it writes thrown away; `changes` tells what that would have been."""
        assert self._sandbox is not None
        if not self._sandbox.layers:
            raise ToolError(
                f"the sandbox {self._sandbox.name} cannot show changes without making them",
                code=2006,
                suggestion="install bubblewrap 0.11 or newer",
            )
        with tempfile.TemporaryDirectory(prefix="agent-gate-") as scratch:
            async with self._command() as command:
                layered = replace(command, layers=_layers(command, scratch))
                result = _result(await self._run(layered))
                changed = await _THREADS.run(partial(_changes, layered))
        return {**result, "changes": changed}

    async def _run(self, command: Command) -> Finished:
        assert self._sandbox is not None
        with self._service.place():
            return await run(command, self._sandbox.wrap(command))

    @asynccontextmanager
    async def _command(self) -> AsyncIterator[Command]:
        looked, policy = self._looked, self._policy
        section, use, executable = policy.guards.shell_run, looked.use, looked.executable
        assert section is not None
        assert use is not None
        assert executable is not None
        _refuse_bad_directory(looked)
        work = partial(self._service.viewer(policy).view, looked, use)
        view, held = await _THREADS.run(work, *_descriptors(looked))
        try:
            yield Command(
                executable.path,
                executable.descriptor.number,
                looked.argv,
                looked.cwd,
                _limits(policy, self._args.get("timeout")),
                view,
                environment(self._args.get("env") or {}, section, use),
                use.starts_programs,
            )
        finally:
            for descriptor in held:
                descriptor.leave()


def _refuse_bad_directory(looked: Looked) -> None:
    here = looked.targets.get(".")
    if "cwd" in looked.resources and here is not None and here.kind != "directory":
        kind = "does not exist" if here.kind == "absent" else f"is a {here.kind}"
        raise ToolError(f"cwd `{printable(here.path)}` {kind}", code=2002, suggestion="name a directory")


def _layers(command: Command, scratch: str) -> dict[str, str]:
    """One for each directory that it may write; a single file that it may write is shown read-only."""
    layers = {}
    for number, place in enumerate(command.view.places):
        if place.access is Access.WRITE and place.is_directory:
            layers[place.path] = f"{scratch}/{number}"
            for name in ("upper", "work"):
                os.makedirs(f"{scratch}/{number}/{name}")
    return layers


def _changes(command: Command) -> list[dict[str, Json]]:
    return [change for folder, layer in command.layers.items() for change in changes(folder, f"{layer}/upper")]


def _descriptors(looked: Looked) -> list[Descriptor]:
    return [target.descriptor for target in looked.targets.values()]


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
    )


def _result(finished: Finished) -> Json:
    """A return code other than 0 is the program's own answer, and a success of the tool."""
    result: dict[str, Json] = {"return_code": finished.return_code}
    escaped = []
    for name, data in (("stdout", finished.stdout), ("stderr", finished.stderr)):
        try:
            result[name] = data.decode()
        except UnicodeDecodeError:
            result[name] = data.decode(errors="backslashreplace")
            escaped.append(name)
    if escaped:
        # What is not UTF-8 in these stands as \xNN.
        result["escaped"] = escaped
    return result

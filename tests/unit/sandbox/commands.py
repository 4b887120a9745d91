"""Commands for tests of sandboxes, and the sandboxes that this machine has."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from agent_gate.sandbox.choice import Sandbox, probe
from agent_gate.sandbox.command import Command, Finished, Limits, Place, View
from agent_gate.sandbox.running import run
from agent_gate.sandbox.supervised import Unconfined

LIMITS = {
    "timeout_s": 20,
    "output_bytes": 100_000,
    "file_bytes": 1_048_576,
    "memory_bytes": 268_435_456,
    "processes": 32,
}


@cache
def sandboxes() -> Mapping[str, Sandbox]:
    """Those that work here, by name; `off` always does."""
    offers = asyncio.run(probe())
    found = {offer.name: offer.sandbox for offer in reversed(offers) if offer.works and offer.sandbox}
    return {**found, "off": Unconfined()}


@contextmanager
def made(
    argv: Sequence[str],
    *,
    cwd: str = "/",
    places: Sequence[Place] = (),
    links: Sequence[tuple[str, str]] = (),
    env: Mapping[str, str] | None = None,
    starts_programs: bool = True,
    **limits: Any,
) -> Iterator[Command]:
    found = shutil.which(argv[0], path="/usr/bin:/bin")
    assert found is not None
    program = os.path.realpath(found)
    descriptor = os.open(program, os.O_PATH | os.O_CLOEXEC)
    try:
        yield Command(
            program,
            descriptor,
            tuple(argv),
            cwd,
            Limits(**{**LIMITS, **limits}),
            View(tuple(places), tuple(links)),
            {"PATH": "/usr/bin:/bin"} if env is None else env,
            starts_programs,
        )
    finally:
        os.close(descriptor)


async def finished(sandbox: Sandbox, argv: Sequence[str], **details: Any) -> Finished:
    with made(argv, **details) as command:
        return await run(command, sandbox.wrap(command))


async def said(sandbox: Sandbox, script: str, **details: Any) -> str:
    """What a script of the shell prints; it must succeed."""
    done = await finished(sandbox, ["sh", "-c", script], **details)
    assert done.return_code == 0, done
    return done.stdout.decode()

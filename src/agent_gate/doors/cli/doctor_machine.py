"""Looks at the machine: Python, libraries, permissions, and what the kernel offers."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from agent_gate import __version__
from agent_gate.model.diagnosis import FAIL, OK, WARN, Diagnosis
from agent_gate.sandbox import choice

PYTHON_MIN = (3, 11)
DISK_FREE_LOW_BYTES = 100 * 1_048_576

_OPENAT2 = 437
_CLONE_NEWUSER = 0x1000_0000


def machine_rows(directory: Path, engine: Diagnosis) -> Iterator[Diagnosis]:
    """`engine` is what the ledger rests on."""
    yield _python()
    yield from _packages()
    yield engine
    yield _umask()
    yield _disk(directory)
    yield from _kernel()


def _python() -> Diagnosis:
    text = f"{platform.python_implementation()} {platform.python_version()}"
    if sys.version_info < PYTHON_MIN:
        return Diagnosis("python", FAIL, text, "use Python 3.11 or newer")
    return Diagnosis("python", OK, text)


def _packages() -> Iterator[Diagnosis]:
    yield Diagnosis("agent-gate", OK, __version__)
    versions, missing = [], []
    for requirement in _requirements():
        name = re.split(r"[\s\[;<>=!~]", requirement, maxsplit=1)[0]
        try:
            versions.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            missing.append(name)
    if missing:
        yield Diagnosis("packages", FAIL, f"missing: {', '.join(missing)}", "install agent-gate anew")
    else:
        yield Diagnosis("packages", OK, ", ".join(versions))


def _requirements() -> list[str]:
    try:
        return metadata.requires("agent-gate") or []
    except metadata.PackageNotFoundError:
        return ["agent-gate"]


def _umask() -> Diagnosis:
    mask = os.umask(0o077)
    os.umask(mask)
    if mask & 0o022 != 0o022:
        return Diagnosis("umask", WARN, f"{mask:04o}", "others may write files that you make; set umask 022 or 077")
    return Diagnosis("umask", OK, f"{mask:04o}")


def _disk(directory: Path) -> Diagnosis:
    try:
        free = shutil.disk_usage(directory).free
    except OSError as error:
        return Diagnosis("disk", WARN, f"unknown: {error.strerror}")
    found = f"{free / 1_048_576:,.0f} MB free at {directory.absolute()}"
    if free < DISK_FREE_LOW_BYTES:
        return Diagnosis("disk", WARN, found, "make room: a full disk stops every call")
    return Diagnosis("disk", OK, found)


def _kernel() -> Iterator[Diagnosis]:
    if not sys.platform.startswith("linux"):
        yield Diagnosis("kernel", WARN, platform.system(), "shell.run needs Linux, and paths are judged part by part")
        return
    yield _openat2()
    yield _user_namespaces()
    yield from _sandboxes()


def _syscall(number: int, *arguments: int) -> tuple[int, int]:
    """The result, and the error number; none of these calls changes anything."""
    libc = ctypes.CDLL(None, use_errno=True)
    result = libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments))
    return result, ctypes.get_errno()


def _openat2() -> Diagnosis:
    result, error = _syscall(_OPENAT2, -1, 0, 0, 0)
    if result < 0 and error in (errno.ENOSYS, errno.EPERM):
        return Diagnosis("openat2", WARN, "not to be had", "paths are walked part by part; Linux 5.6 does it at once")
    return Diagnosis("openat2", OK, "there")


def _user_namespaces() -> Diagnosis:
    child = os.fork()
    if child == 0:
        os._exit(0 if ctypes.CDLL(None).unshare(_CLONE_NEWUSER) == 0 else 1)
    _, status = os.waitpid(child, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        return Diagnosis(
            "user namespaces", WARN, "not allowed", "bubblewrap needs them: kernel.unprivileged_userns_clone=1"
        )
    return Diagnosis("user namespaces", OK, "allowed")


def _sandboxes() -> Iterator[Diagnosis]:
    """Each sandbox is tried with a harmless command, and the last row says what `sandbox: auto` makes of it."""
    offers = asyncio.run(choice.probe())
    best = next((offer for offer in offers if offer.works and offer.sandbox is not None), None)
    for offer in offers:
        if offer.works:
            yield Diagnosis(offer.name, OK, offer.found)
        elif best is not None and offer.name in ("bubblewrap", "sandlock"):
            yield Diagnosis(offer.name, OK, f"{offer.found}; not needed, {best.name} works")
        else:
            yield Diagnosis(offer.name, WARN, offer.found, offer.advice)
    if best is None:
        advice = "mend one of the sandboxes above, or write `sandbox: off` under tools: shell.run in the policy"
        yield Diagnosis("shell.run", WARN, "refused: no sandbox works here", advice)
    else:
        yield Diagnosis("shell.run", OK, f"commands run in {best.name}")

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
from agent_gate.doors.cli.health import FAIL, OK, WARN, Row

PYTHON_MIN = (3, 11)
DISK_FREE_LOW_BYTES = 100 * 1_048_576

_OPENAT2 = 437
_CLONE_NEWUSER = 0x1000_0000


def system_rows(directory: Path, engine: Row) -> Iterator[Row]:
    """`engine` is what the ledger rests on."""
    yield _python()
    yield from _packages()
    yield engine
    yield _umask()
    yield _disk(directory)
    yield from _kernel()


def _python() -> Row:
    text = f"{platform.python_implementation()} {platform.python_version()}"
    if sys.version_info < PYTHON_MIN:
        return Row("python", FAIL, text, "use Python 3.11 or newer")
    return Row("python", OK, text)


def _packages() -> Iterator[Row]:
    yield Row("agent-gate", OK, __version__)
    versions, missing = [], []
    for requirement in _requirements():
        name = re.split(r"[\s\[;<>=!~]", requirement, maxsplit=1)[0]
        try:
            versions.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            missing.append(name)
    if missing:
        yield Row("packages", FAIL, f"missing: {', '.join(missing)}", "install agent-gate anew")
    else:
        yield Row("packages", OK, ", ".join(versions))


def _requirements() -> list[str]:
    try:
        return metadata.requires("agent-gate") or []
    except metadata.PackageNotFoundError:
        return ["agent-gate"]


def _umask() -> Row:
    mask = os.umask(0o077)
    os.umask(mask)
    if mask & 0o022 != 0o022:
        return Row("umask", WARN, f"{mask:04o}", "others may write files that you make; set umask 022 or 077")
    return Row("umask", OK, f"{mask:04o}")


def _disk(directory: Path) -> Row:
    try:
        free = shutil.disk_usage(directory).free
    except OSError as error:
        return Row("disk", WARN, f"unknown: {error.strerror}")
    found = f"{free / 1_048_576:,.0f} MB free at {directory.absolute()}"
    if free < DISK_FREE_LOW_BYTES:
        return Row("disk", WARN, found, "make room: a full disk stops every call")
    return Row("disk", OK, found)


def _kernel() -> Iterator[Row]:
    if not sys.platform.startswith("linux"):
        yield Row("kernel", WARN, platform.system(), "shell.run needs Linux, and paths are judged part by part")
        return
    yield _openat2()
    yield _user_namespaces()
    yield from _sandboxes()


def _syscall(number: int, *arguments: int) -> tuple[int, int]:
    """The result, and the error number; none of these calls changes anything."""
    libc = ctypes.CDLL(None, use_errno=True)
    result = libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments))
    return result, ctypes.get_errno()


def _openat2() -> Row:
    result, error = _syscall(_OPENAT2, -1, 0, 0, 0)
    if result < 0 and error in (errno.ENOSYS, errno.EPERM):
        return Row("openat2", WARN, "not to be had", "paths are walked part by part; Linux 5.6 does it at once")
    return Row("openat2", OK, "there")


def _user_namespaces() -> Row:
    child = os.fork()
    if child == 0:
        os._exit(0 if ctypes.CDLL(None).unshare(_CLONE_NEWUSER) == 0 else 1)
    _, status = os.waitpid(child, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        return Row("user namespaces", WARN, "not allowed", "bubblewrap needs them: kernel.unprivileged_userns_clone=1")
    return Row("user namespaces", OK, "allowed")


def _sandboxes() -> Iterator[Row]:
    """Each sandbox is tried with a harmless command, and the last row says what `sandbox: auto` makes of it."""
    from agent_gate.sandbox.choice import probe

    offers = asyncio.run(probe())
    best = next((offer for offer in offers if offer.works and offer.sandbox is not None), None)
    for offer in offers:
        if offer.works:
            yield Row(offer.name, OK, offer.found)
        elif best is not None and offer.name in ("bubblewrap", "sandlock"):
            yield Row(offer.name, OK, f"{offer.found}; not needed, {best.name} works")
        else:
            yield Row(offer.name, WARN, offer.found, offer.advice)
    if best is None:
        advice = "mend one of the sandboxes above, or write `sandbox: off` under tools: shell.run in the policy"
        yield Row("shell.run", WARN, "refused: no sandbox works here", advice)
    else:
        yield Row("shell.run", OK, f"commands run in {best.name}")

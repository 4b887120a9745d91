"""A program's name resolved once, in directories that nobody else can change, to the file that will be started."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from typing import NamedTuple

from agent_gate.model.tool import Json
from agent_gate.resolve.descriptors import Descriptor, real_name

_OPEN = os.O_PATH | os.O_CLOEXEC if hasattr(os, "O_PATH") else os.O_RDONLY
_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class Executable(NamedTuple):
    """The file that a name leads to, held open until released."""

    path: str
    """Its real path."""
    descriptor: Descriptor
    status: os.stat_result

    @property
    def identity(self) -> dict[str, Json]:
        device = self.status.st_dev
        return {
            "executable": self.path,
            "device": f"{os.major(device)}:{os.minor(device)}",
            "inode": str(self.status.st_ino),
        }


class NotFound(Exception):
    """Explain why a name leads to no program that may be started."""


def find_program(given: str, trusted_dirs: Sequence[str]) -> Executable:
    """The program of that name in the first trusted directory that has one; raises NotFound.

    A full path is taken if it is one that the name alone would have led to.
    """
    folder, slash, name = given.rpartition("/")
    if slash and folder not in {trusted.rstrip("/") for trusted in trusted_dirs}:
        raise NotFound("is a path outside of trusted_dirs")
    if name in ("", ".", "..") or "\0" in name:
        raise NotFound("is not the name of a program")
    found = _first(name, trusted_dirs)
    try:
        _check(found)
        if slash and not os.path.samestat(os.stat(given), found.status):
            raise NotFound(f"is not the program that `{name}` leads to, which is {found.path}")
    except OSError as error:
        found.descriptor.leave()
        raise NotFound(f"cannot be looked at: {error.strerror}") from None
    except BaseException:
        found.descriptor.leave()
        raise
    return found


def _first(name: str, trusted_dirs: Sequence[str]) -> Executable:
    for folder in trusted_dirs:
        try:
            number = os.open(f"{folder}/{name}", _OPEN)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise NotFound(f"cannot be opened in {folder}: {error.strerror}") from None
        descriptor = Descriptor(number)
        return Executable(real_name(number), descriptor, os.fstat(number))
    raise NotFound("was not found in trusted_dirs")


def _check(found: Executable) -> None:
    mode = found.status.st_mode
    if not stat.S_ISREG(mode) or not mode & 0o111:
        raise NotFound(f"leads to {found.path}, which is not a program")
    if _is_changeable(found.status):
        raise NotFound(f"leads to {found.path}, which others can change")
    folder = os.path.dirname(found.path)
    if _is_changeable(os.stat(folder)):
        raise NotFound(f"lies in {folder}, which others can change")
    while folder != "/":
        folder = os.path.dirname(folder)
        above = os.stat(folder)
        # Where the sticky bit is set, as on /tmp, nobody can replace what belongs to somebody else.
        if _is_changeable(above) and not (above.st_mode & stat.S_ISVTX and above.st_uid == 0):
            raise NotFound(f"lies below {folder}, which others can change")


def _is_changeable(status: os.stat_result) -> bool:
    """By anybody but the system and the gate's own user."""
    return bool(status.st_mode & _BY_OTHERS) or status.st_uid not in (0, os.geteuid())

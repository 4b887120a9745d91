"""Files that a configuration or a policy names: opened without waiting for anybody, and nothing but regular files."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def open_regular(path: str | Path, flags: int = os.O_RDONLY, mode: int = 0o600) -> int:
    """A descriptor; OSError where something else stands there.

    It is looked at before it is opened, because to open a device may do something, and afterwards, because it may have
    been replaced in between: then nothing waits for the other end of a pipe.
    """
    try:
        _refuse_other_kinds(path, os.stat(path).st_mode)
    except FileNotFoundError:
        if not flags & os.O_CREAT:
            raise
    descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY, mode)
    try:
        _refuse_other_kinds(path, os.fstat(descriptor).st_mode)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_regular(path: str | Path, bytes_max: int) -> bytes:
    """The content; OSError where it is more than that, or no regular file."""
    with open(open_regular(path), "rb") as file:
        data = file.read(bytes_max + 1)
    if len(data) > bytes_max:
        raise OSError(errno.EFBIG, f"it is larger than {bytes_max} bytes", str(path))
    return data


def _refuse_other_kinds(path: str | Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, f"it is {_KINDS.get(stat.S_IFMT(mode), 'something else')}, not a file", str(path))

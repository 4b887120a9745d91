"""openat2: opens a path in one step that never goes through the links by which /proc leads elsewhere."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import sys
from functools import cache

_NUMBER = ctypes.c_long(437)
"""The same on every architecture named here."""
_MACHINES = frozenset({"x86_64", "aarch64", "riscv64", "ppc64le", "s390x", "loongarch64"})
_AT_FDCWD = ctypes.c_int(-100)
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_CACHED = 0x20

O_PATH: int = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK)


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


_HOW = _OpenHow(O_PATH | os.O_CLOEXEC, 0, _RESOLVE_NO_MAGICLINKS)
_HOW_CACHED = _OpenHow(O_PATH | os.O_CLOEXEC, 0, _RESOLVE_NO_MAGICLINKS | _RESOLVE_CACHED)
_WAITING = ctypes.pointer(_HOW)
_AT_ONCE = ctypes.pointer(_HOW_CACHED)
_SIZE = ctypes.c_size_t(ctypes.sizeof(_OpenHow))


def open_path(path: bytes) -> int:
    """An `O_PATH` descriptor of what the path leads to; the path holds no NUL."""
    return _open(path, _WAITING)


def open_path_at_once(path: bytes) -> int | None:
    """The same where the kernel has all of the way in memory; None where it would have to wait for a disk."""
    try:
        return _open(path, _AT_ONCE)
    except BlockingIOError:
        return None


def _open(path: bytes, how: ctypes._Pointer[_OpenHow]) -> int:
    call = _syscall()
    while True:
        descriptor: int = call(_NUMBER, _AT_FDCWD, path, how, _SIZE)
        if descriptor >= 0:
            return descriptor
        number = ctypes.get_errno()
        if number != errno.EINTR:
            raise OSError(number, os.strerror(number))


@cache
def _syscall() -> ctypes._NamedFuncPointer:
    """Without `argtypes`: whatever is passed already is of its C type, and looking it up takes a microsecond."""
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    return call


@cache
def is_available() -> bool:
    """Tell whether this kernel has it, and nothing such as a container's filter takes it away."""
    return _works(_WAITING)


@cache
def is_available_at_once() -> bool:
    return _works(_AT_ONCE)


def _works(how: ctypes._Pointer[_OpenHow]) -> bool:
    if sys.platform != "linux" or platform.machine() not in _MACHINES:
        return False
    try:
        os.close(_open(b"/", how))
    except BlockingIOError:
        return True
    except OSError:
        return False
    return True

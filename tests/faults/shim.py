"""The Python side of `shim.c`: builds it, arms it inside a program, reads what it recorded."""

from __future__ import annotations

import ctypes
import errno
import shutil
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from pathlib import Path

SOURCE = Path(__file__).with_name("shim.c")
COMPILER = shutil.which("cc") or shutil.which("gcc")


def build(folder: Path) -> Path:
    assert COMPILER is not None
    library = folder / "shim.so"
    subprocess.run([COMPILER, "-shared", "-fPIC", "-O2", "-o", library, SOURCE, "-ldl", "-lpthread"], check=True)
    return library


class Op(IntFlag):
    WRITE = 1
    SYNC = 2
    TRUNCATE = 4
    NAME = 8
    ANY = 15


class Action(IntEnum):
    KILL = 1
    """Before the operation."""
    TEAR = 2
    """After half of a write."""
    FAIL = 3
    SHORT = 4
    """Half of a write is done, and said to be."""


@dataclass(frozen=True)
class Fault:
    """At the `nth` of these operations on files whose path holds `match`, and `times` in a row (-1: from then on)."""

    action: Action
    ops: Op = Op.ANY
    match: str = ".db"
    nth: int = 1
    times: int = 1
    error: int = errno.EIO

    def arm(self) -> None:
        _library().fault_arm(self.match.encode(), self.ops, self.action, self.error, self.nth, self.times)


def disarm() -> int:
    """How often it fired."""
    count = fired()
    _library().fault_arm(b"", 0, 0, 0, 0, 0)
    return count


def fired() -> int:
    return int(_library().fault_fired())


def record(match: str, descriptor: int) -> None:
    _library().fault_record(match.encode(), descriptor)


def note(text: str) -> None:
    """Puts a mark between the recorded operations."""
    _library().fault_note(text.encode())


def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(None)
    library.fault_arm.argtypes = [
        ctypes.c_char_p,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_long,
        ctypes.c_long,
    ]
    library.fault_fired.restype = ctypes.c_long
    return library


@dataclass(frozen=True)
class Recorded:
    operation: str
    path: str
    offset: int
    data: bytes


def recorded(log: bytes) -> Iterator[Recorded]:
    header = struct.Struct("<cIIq")
    at = 0
    while at < len(log):
        operation, path_size, data_size, offset = header.unpack_from(log, at)
        at += header.size
        path = log[at : at + path_size].decode()
        data = log[at + path_size : at + path_size + data_size]
        at += path_size + data_size
        yield Recorded(operation.decode(), path, offset, data)

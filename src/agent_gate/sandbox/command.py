"""A command to be run, and the part of the world that it sees while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class Access(Enum):
    NONE = "none"
    READ = "read"
    WRITE = "write"


@dataclass(frozen=True, slots=True)
class Place:
    """A file or directory, at its real path, and how a command may use it and what lies below."""

    path: str
    access: Access
    is_directory: bool
    descriptor: int | None = None
    """An open descriptor, where it was judged as one: that very thing is shown."""
    sources: tuple[str, ...] = ()
    """Its parts, the lowest first, where they are not what stands at its path: in a simulation."""


@dataclass(frozen=True, slots=True)
class View:
    """All that a command sees besides programs and libraries of the system; later places lie upon earlier ones."""

    places: tuple[Place, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    """Names that a command uses for something else: (name, real path)."""
    folders: tuple[str, ...] = ()
    """Directories that its words lead through, of which it needs to see no more than that they are there."""
    left_out: int = 0
    """Files and directories below what it is shown that are kept from it; a directory counts as one."""


@dataclass(frozen=True, slots=True)
class Limits:
    timeout_s: float
    output_bytes: int
    file_bytes: int
    memory_bytes: int
    processes: int
    changed_bytes: int = 0
    """Of what it writes into layers; 0 for no bound of its own."""


@dataclass(frozen=True, slots=True)
class Command:
    executable: str
    """The real path of the program."""
    descriptor: int
    """The program as it was judged."""
    argv: tuple[str, ...]
    cwd: str
    limits: Limits
    view: View = field(default_factory=View)
    env: Mapping[str, str] = field(default_factory=dict)
    starts_programs: bool = False
    """Otherwise the kernel refuses it another process."""
    layers: Mapping[str, str] = field(default_factory=dict)
    """Directories that take its writes instead, by the directory that it writes to."""
    scratch: str = ""
    """The directory that all of its layers lie in."""
    follows: bool = False
    """It never ends by itself: when its time is over, what it has printed is its answer."""


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of a command that ended by itself; killed by signal N is 128 + N, as shells have it."""

    return_code: int
    stdout: bytes
    stderr: bytes
    timed_out: bool = False
    """It was ended at the end of its time, as it was meant to be."""

"""Needs of a program that is a script: its interpreter, and of a Python its packages and library."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from glob import escape, glob
from typing import NamedTuple

from agent_gate.resolve.following import followed
from agent_gate.resolve.programs import Executable

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
"""Shown to every command."""
_HEAD_BYTES = 4_096
_BY_SHELL = re.compile(r"'''exec' (?P<path>\"[^\"]+\"|\S+)")
"""The form in which installers write a path that is too long for the first line, or that has a blank in it."""
_PYTHON = re.compile(r"python[0-9.]*")
_VERSION = re.compile(r"^version(?:_info)?\s*=\s*(\d+\.\d+)", re.MULTILINE)


class Need(NamedTuple):
    """A path that must be seen for a script to run."""

    name: str
    """Its name for people."""
    path: str
    """The path whose visibility decides; of a symbolic link, the directory that it stands in."""
    allow: str
    """A pattern that lets it be seen."""


def needs_of(executable: Executable, trusted_dirs: Sequence[str]) -> list[Need]:
    """Of a script, all that it needs and that is not the system's; of another program nothing. May wait for a disk."""
    interpreter = _interpreter(_head(executable), trusted_dirs)
    if not interpreter:
        return []
    prefix = os.path.dirname(os.path.dirname(interpreter))
    settings = _read(f"{prefix}/pyvenv.cfg")
    around = f"{prefix}/**" if settings is not None else interpreter
    needs = list(_way_to(interpreter, around))
    if _PYTHON.fullmatch(os.path.basename(interpreter)):
        needs += _of_python(interpreter, prefix, settings)
    # A link of the system's, as `/bin` often is, is there though the directory that it stands in is not shown.
    return [need for need in dict.fromkeys(needs) if not _is_systems(need.path) and not _is_systems(need.name)]


def _head(executable: Executable) -> str:
    try:
        with open(f"/proc/self/fd/{executable.descriptor.number}", "rb") as file:
            return os.fsdecode(file.read(_HEAD_BYTES))
    except OSError:
        return ""


def _interpreter(head: str, trusted_dirs: Sequence[str]) -> str:
    """The path of the program that is to read the script; empty where there is none, or none that is known."""
    if not head.startswith("#!"):
        return ""
    first, _, rest = head[2:].partition("\n")
    words = first.split(maxsplit=1)
    if not words:
        return ""
    by_shell = _BY_SHELL.match(rest)
    if by_shell:
        return by_shell["path"].strip('"')
    if os.path.basename(words[0]) == "env" and len(words) > 1:
        return _found_by_env(words[1], trusted_dirs)
    return words[0] if words[0].startswith("/") else ""


def _found_by_env(text: str, trusted_dirs: Sequence[str]) -> str:
    words: list[str] = []
    with suppress(ValueError):
        words = shlex.split(text)
    name = next((word for word in words if not word.startswith("-") and "=" not in word), "")
    if not name or "/" in name:
        return name if name.startswith("/") else ""
    paths = (f"{folder.rstrip('/')}/{name}" for folder in trusted_dirs)
    return next((path for path in paths if os.path.exists(path)), "")


def _way_to(path: str, allow: str) -> Iterator[Need]:
    """The links that a path leads through, and the file at its end."""
    links: list[str] = []

    def target_of(name: str) -> str:
        target = _target(name)
        if target:
            links.append(name)
        return target

    end = followed(path, target_of)
    yield from (Need(link, os.path.dirname(link), allow) for link in links)
    yield Need(end, end, allow if not links and allow != path else _around(end))


def _around(path: str) -> str:
    """A pattern for an interpreter with all that lies beside it."""
    folder = os.path.dirname(path)
    return f"{os.path.dirname(folder)}/**" if os.path.basename(folder) == "bin" else path


def _target(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _of_python(interpreter: str, prefix: str, settings: str | None) -> Iterator[Need]:
    real = os.path.realpath(interpreter)
    base = os.path.dirname(os.path.dirname(real))
    told = _VERSION.search(settings or "")
    version = told[1] if told else os.path.basename(real).removeprefix("python")
    if settings is not None:
        yield Need(f"{prefix}/pyvenv.cfg", f"{prefix}/pyvenv.cfg", f"{prefix}/**")
        for packages in glob(f"{escape(prefix)}/lib*/python{version}/site-packages"):
            yield Need(packages, os.path.realpath(packages), f"{prefix}/**")
    for library in (f"{base}/lib/python{version}", *glob(f"{escape(base)}/lib/libpython{version}*.so.*")):
        if os.path.exists(library):
            yield Need(library, os.path.realpath(library), f"{base}/**")


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(_HEAD_BYTES)
    except OSError:
        return None


def _is_systems(path: str) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in SYSTEM)

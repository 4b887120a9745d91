"""A list in the user's state directory of what their gates call their own, so that each protects the others' too."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import NamedTuple

from agent_gate.model.bounds import NOTED_BYTES_MAX, NOTED_MAX, PATH_BYTES_MAX
from agent_gate.model.codec import CodecError, canonical, parse

SECRET, PROTECTED, LEDGER = "secret", "protected", "ledger"
_LIST, _LOCK = "own-files.jsonl", "own-files.lock"
_LOCK_TRIES, _LOCK_PAUSE_S = 20, 0.005


class Noted(NamedTuple):
    kind: str
    path: str


def state_directory() -> str:
    """By the environment of whoever starts the gate; empty where there is no home either."""
    named = os.environ.get("XDG_STATE_HOME", "")
    base = named if os.path.isabs(named) else os.path.join(os.path.expanduser("~"), ".local/state")
    return os.path.join(base, "agent-gate") if os.path.isabs(base) else ""


def noted() -> tuple[Noted, ...]:
    """Read the list; nothing where there is none."""
    directory = state_directory()
    if not directory:
        return ()
    path = os.path.join(directory, _LIST)
    try:
        status = os.stat(path)
        return _read(path, (status.st_ino, status.st_mtime_ns, status.st_size))
    except OSError:
        return ()


def note(entries: Iterable[Noted]) -> None:
    """Put on the list what is not there yet. Where that cannot be done, the start goes on without."""
    ours = tuple(entry for entry in dict.fromkeys(entries) if _exists(entry))
    directory = state_directory()
    if not directory or not set(ours) - set(noted()):
        return
    with suppress(OSError):
        os.makedirs(directory, 0o700, exist_ok=True)
        os.chmod(directory, 0o700)
        with _locked(os.path.join(directory, _LOCK)):
            older = [entry for entry in noted() if entry not in ours and _exists(entry)]
            _write(os.path.join(directory, _LIST), (*older, *ours)[-NOTED_MAX:])


@lru_cache(maxsize=4)
def _read(path: str, _: tuple[int, ...]) -> tuple[Noted, ...]:
    """A list is replaced and never changed in place, so that its inode and time stand for what it says."""
    with open(path, "rb") as file:
        lines = file.read(NOTED_BYTES_MAX).splitlines()
    return tuple(entry for line in lines[:NOTED_MAX] for entry in _entry(line))


def _entry(line: bytes) -> Iterator[Noted]:
    """A kind that is not known here, as of a later release, is the strictest."""
    try:
        fields = parse(line)
    except CodecError:
        return
    path = fields.get("path") if isinstance(fields, dict) else None
    if isinstance(path, str) and os.path.isabs(path) and len(path) <= PATH_BYTES_MAX:
        kind = fields.get("kind")
        yield Noted(kind if kind in (PROTECTED, LEDGER) else SECRET, path)


def _exists(entry: Noted) -> bool:
    """Directories are not noted: nobody should lose a whole tree because another start named it."""
    try:
        entry.path.encode()
    except UnicodeEncodeError:
        return False
    return os.path.isfile(entry.path)


@contextmanager
def _locked(path: str) -> Iterator[None]:
    """One writer at a time; an OSError where somebody holds it for long."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        for left in reversed(range(_LOCK_TRIES)):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not left:
                    raise
                time.sleep(_LOCK_PAUSE_S)
        yield
    finally:
        os.close(descriptor)


def _write(path: str, entries: Iterable[Noted]) -> None:
    draft = f"{path}.new"
    with suppress(FileNotFoundError):
        os.unlink(draft)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with open(descriptor, "wb") as file:
        file.writelines(canonical(entry._asdict()) + b"\n" for entry in entries)
    os.rename(draft, path)

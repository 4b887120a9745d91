"""The steps of a commit: made, taken back, and recognised afterwards by what stands where."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Sequence
from contextlib import suppress

from agent_gate.resolve.commit.folders import Folders, beside
from agent_gate.resolve.commit.units import ADD, META, REMOVE, SWAP, TEMPORARY, Meta, Unit
from agent_gate.resolve.openat2 import O_PATH


def make(unit: Unit, folders: Folders) -> None:
    """OSError, and nothing changed, where it cannot be made."""
    if unit.step == ADD:
        folders.move_in(unit.name, unit.path)
    elif unit.step == SWAP:
        folders.exchange(unit.path, unit.name)
        _check_swapped(unit, folders)
    elif unit.step == REMOVE:
        folders.move(unit.path, unit.name)
    else:
        assert unit.becomes is not None
        _set_meta(unit, unit.becomes, folders)


def _check_swapped(unit: Unit, folders: Folders) -> None:
    """Check that what was exchanged is what was looked at a moment before."""
    assert unit.before is not None
    if not unit.before.is_same_thing(folders.status(beside(unit.path, unit.name))):
        folders.exchange(unit.path, unit.name)
        raise OSError(errno.EBUSY, "another program replaced it in this moment", unit.path)


def take_back(unit: Unit, folders: Folders) -> None:
    """OSError where somebody else has changed what the step made."""
    if unit.step == META:
        assert unit.was is not None
        _require(unit.before is not None and unit.before.is_same_thing(folders.status(unit.path)), unit)
        _set_meta(unit, unit.was, folders)
    elif unit.step == REMOVE:
        folders.move_in(unit.name, unit.path)
    else:
        _require(_is_staged(unit, folders.status(unit.path)), unit)
        if unit.step == ADD:
            folders.move(unit.path, unit.name)
        else:
            folders.exchange(unit.path, unit.name)


def is_made(unit: Unit, folders: Folders) -> bool | None:
    """Tell whether the step was made, if only in part; None where somebody else has changed since what it made."""
    status, waiting = folders.status(unit.path), folders.status(beside(unit.path, unit.name))
    is_before = unit.before is not None and unit.before.is_same_thing(status)
    if unit.step == META:
        return _has_meta(unit, status) if is_before else None
    waiting = folders.status(beside(unit.path, unit.name))
    if unit.step == REMOVE:
        if status is None:
            return True
        return None if unit.before is not None and unit.before.is_same_thing(waiting) else False
    if _is_staged(unit, status):
        return True
    if _is_staged(unit, waiting):
        return False
    # Without what was staged it can only be given up.
    return False if waiting is None and (is_before or (unit.step == ADD and status is None)) else None


def can_be_made(unit: Unit, folders: Folders) -> bool:
    """Tell whether a step that was not made still can be: all is there, and nobody has changed what it replaces."""
    status = folders.status(unit.path)
    if unit.step == META:
        return is_made(unit, folders) is not None
    if unit.before is not None:
        if status is None or not unit.before.is_same_thing(status) or status.st_ctime_ns != unit.before.changed_ns:
            return False
    elif status is not None:
        return False
    return unit.step == REMOVE or _is_staged(unit, folders.status(beside(unit.path, unit.name)))


def clear(unit: Unit, folders: Folders) -> None:
    """Remove what a step replaced, once it is made."""
    if unit.name and unit.before is not None:
        waiting = beside(unit.path, unit.name)
        if unit.before.is_same_thing(folders.status(waiting)):
            with suppress(OSError):
                folders.remove_tree(waiting)


def clear_staged(unit: Unit, folders: Folders) -> None:
    """Remove what waits for a step that is not to be made."""
    if unit.name and unit.staged is not None:
        waiting = beside(unit.path, unit.name)
        if _is_staged(unit, folders.status(waiting)):
            folders.remove_tree(waiting)


def file_list(folder: str, call_id: str) -> str:
    """The file that lists the names a call has staged, until the ledger has them."""
    return f"{folder}/staged-{call_id}.json"


def note_names(noted: str, names: Sequence[tuple[str, str]]) -> None:
    """List what processes have left that died before their commit was in the ledger."""
    waiting = [beside(path, name) for path, name in names]
    with open(noted, "x", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
        json.dump(waiting, file)


def forget_names(noted: str) -> None:
    with suppress(OSError):
        os.unlink(noted)


def remove_noted(noted: str) -> None:
    """Remove what a process staged and never committed."""
    try:
        with open(noted, encoding="utf-8") as file:
            names = json.load(file)
    except (OSError, ValueError):
        names = []
    with Folders() as folders:
        for name in names:
            # Nothing but what is ours is ever removed, whoever wrote the list.
            if os.path.basename(name).startswith(TEMPORARY):
                with suppress(OSError):
                    folders.remove_tree(name)
    forget_names(noted)


def _is_staged(unit: Unit, status: os.stat_result | None) -> bool:
    return status is not None and (status.st_dev, status.st_ino) == unit.staged


def _require(holds: bool, unit: Unit) -> None:
    if not holds:
        raise OSError(errno.EBUSY, "another program changed it", unit.path)


def _has_meta(unit: Unit, status: os.stat_result | None) -> bool | None:
    assert status is not None
    assert unit.was is not None
    assert unit.becomes is not None
    mode = status.st_mode & 0o7777
    mtime_ns = None if unit.becomes.mtime_ns is None else status.st_mtime_ns
    if (mode, mtime_ns) == (unit.was.mode, unit.was.mtime_ns):
        return False
    known = mode in (unit.was.mode, unit.becomes.mode) and mtime_ns in (unit.was.mtime_ns, unit.becomes.mtime_ns)
    return True if known else None


def _set_meta(unit: Unit, meta: Meta, folders: Folders) -> None:
    folder, name = folders.of(unit.path)
    number = os.open(name, O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        place = f"/proc/self/fd/{number}"
        os.chmod(place, meta.mode)
        if meta.mtime_ns is not None:
            os.utime(place, ns=(meta.mtime_ns, meta.mtime_ns))
    finally:
        os.close(number)

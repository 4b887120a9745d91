"""Hints that a program's own words do not give: where layers cannot do what a disk can, and the way out."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence

from agent_gate.model.bounds import FOREIGN_FILES_LOOKED_AT_MAX
from agent_gate.model.tool import Json
from agent_gate.model.visible import visible
from agent_gate.sandbox.command import Finished

_FOREIGN = b"Value too large for defined data type"
_MOVED = b"Invalid cross-device link"
_BETWEEN_WORDS = re.compile(rb"[\s'\"`:,]+")


def hint(finished: Finished, writable: Sequence[str]) -> Mapping[str, Json]:
    """For a command that failed over its layers. May wait for a disk."""
    if finished.return_code == 0:
        return {}
    said = finished.stderr + finished.stdout
    if _FOREIGN in said:
        path = next(_foreign(writable, said), None)
        which = f"`{visible(path)}` belongs" if path else "a file belongs"
        text = f"{which} to another user or group, and cannot be changed in a layer: give it to the gate's user"
        return {"hint": f"{text}, or write `writes: direct` under shell.run"}
    if _MOVED in said:
        path = _moved(writable, said)
        which = f"`{visible(path)}` was there before, and such a directory" if path else "a directory of before"
        text = f"{which} cannot be renamed in a layer: copy it and remove the old one"
        return {"hint": f"{text}, or write `writes: direct` under shell.run"}
    return {}


def _foreign(writable: Iterable[str], said: bytes) -> Iterator[str]:
    """Files of others, those that the program named first."""
    own = os.geteuid(), os.getegid()
    found = [path for path, status in _below(writable) if (status.st_uid, status.st_gid) != own]
    return iter(sorted(found, key=lambda path: os.fsencode(os.path.basename(path)) not in said))


def _moved(writable: Sequence[str], said: bytes) -> str | None:
    """The directory that the program named, by as much of its path as it gave."""
    words = set(map(os.fsdecode, _BETWEEN_WORDS.split(said)))
    folders = (
        (_length_named(path, root, words), path)
        for root in writable
        for path, status in _below([root])
        if stat.S_ISDIR(status.st_mode)
    )
    length, path = max(folders, default=(0, ""))
    return path if length else None


def _length_named(path: str, root: str, words: set[str]) -> int:
    spellings = (path, os.path.relpath(path, root), os.path.basename(path))
    return max((len(text) for text in spellings if text in words), default=0)


def _below(roots: Iterable[str]) -> Iterator[tuple[str, os.stat_result]]:
    """Files and directories, as many as may be looked at for the sake of a hint."""
    left = FOREIGN_FILES_LOOKED_AT_MAX
    for root in roots:
        for folder, folders, files in os.walk(root):
            for name in (*folders, *files):
                left -= 1
                try:
                    yield f"{folder}/{name}", os.lstat(f"{folder}/{name}")
                except OSError:
                    continue
            if left < 0:
                break

"""Files as a simulation has them: those of the disk, and over them what its steps have written so far."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress

from agent_gate.model.bounds import SIMULATED_FILES_MAX
from agent_gate.model.errors import ToolError
from agent_gate.resolve.commit.change import Change
from agent_gate.resolve.following import followed
from agent_gate.resolve.scratch import Scratch
from agent_gate.resolve.trees import remove_tree

_OPAQUE = "user.overlay.opaque"
_FILE_MODE, _DIRECTORY_MODE = 0o644, 0o755


class Copies:
    """One tree for all that lies over the disk, as the layers of an overlay are written, so that it can be one of them.

    A name that is gone is a device 0:0; a directory that hides the one below it is marked as opaque.
    """

    def __init__(self, entries_max: int = SIMULATED_FILES_MAX) -> None:
        self._entries_max = entries_max
        self._scratch: Scratch | None = None
        self._top = ""

    @property
    def is_open(self) -> bool:
        """True once there is a place for them; until then all is as on the disk."""
        return bool(self._top)

    def open(self, place: str) -> None:
        """Take a directory of our own at a place that overlays can use. May wait for a disk."""
        if self._scratch is None:
            self._scratch = Scratch(place)
            self._top = f"{self._scratch.path}/files"
            os.mkdir(self._top)

    def close(self) -> None:
        """Leave nothing behind. May wait for a disk."""
        if self._scratch is not None:
            self._scratch.remove()
        self._scratch, self._top = None, ""

    def lstat(self, path: str) -> os.stat_result | None:
        host = self.host(path)
        return _lstat(host) if host is not None else None

    def host(self, path: str) -> str | None:
        """Find where that really stands which a simulation has at a path without links; None where nothing does.

        A directory that is on the disk and in the copies stands in the copies: see `sources`.
        """
        return self._look(path)[0]

    def sources(self, path: str) -> tuple[str, ...]:
        """The directories that make up one, the lowest first."""
        host, is_hidden = self._look(path)
        if host is None or host == path:
            return (path,)
        is_below = not is_hidden and _is_directory(_lstat(path))
        return (path, host) if is_below and _is_directory(_lstat(host)) else (host,)

    def names(self, path: str) -> list[str]:
        """List a directory."""
        found = {name for source in self.sources(path) for name in os.listdir(source)}
        return sorted(name for name in found if self.host(f"{path.rstrip('/')}/{name}") is not None)

    def _look(self, path: str) -> tuple[str | None, bool]:
        """Its real place, and whether what the disk has there is hidden."""
        above, is_hidden = self._top, False
        names = [name for name in path.split("/") if name] if self._top else []
        for at, name in enumerate(names, 1):
            above = f"{above}/{name}"
            status = _lstat(above)
            if status is None:
                return (None if is_hidden or _lstat(path) is None else path), is_hidden
            if _is_gone(status):
                return None, True
            if not stat.S_ISDIR(status.st_mode):
                return (above if at == len(names) else None), True
            is_hidden = is_hidden or _is_opaque(above) or not _is_directory(_lstat("/" + "/".join(names[:at])))
        if names:
            return above, is_hidden
        return (path if _lstat(path) is not None else None), False

    def real_name(self, path: str) -> str:
        """An absolute path with all links followed, as a simulation finds them; what is not there need not be."""
        return followed(path, self._target)

    def _target(self, path: str) -> str:
        host = self.host(path)
        if host is not None:
            with suppress(OSError):
                return os.readlink(host)
        return ""

    def entries(self) -> Iterator[tuple[str, str]]:
        """All that there is over the disk, outer things first: each path, and where it stands.

        ToolError where there is more than can be looked at: what is not looked at would be shown unjudged.
        """
        waiting, left = [""] if self._top else [], self._entries_max
        for folder in waiting:
            for entry in sorted(os.scandir(f"{self._top}{folder}"), key=lambda entry: entry.name):
                left -= 1
                if left < 0:
                    detail = f"a simulation carries at most {self._entries_max} files from step to step"
                    raise ToolError(detail, code=2006, suggestion="simulate fewer steps at once")
                status = entry.stat(follow_symlinks=False)
                path = f"{folder}/{entry.name}"
                if stat.S_ISDIR(status.st_mode):
                    waiting.append(path)
                if not _is_gone(status):
                    yield path, entry.path

    def write(self, path: str, data: bytes) -> None:
        """A file with this content, and the directories on the way to it. May wait for a disk."""
        before = self.lstat(path)
        above = self._room_for(path)
        with open(above, "xb") as file:
            file.write(data)
        os.chmod(above, stat.S_IMODE(before.st_mode) if before is not None else _FILE_MODE & ~_umask())

    def apply(self, changes: Iterable[Change]) -> None:
        """Take in what a command wrote; its files are taken from where they are. May wait for a disk."""
        for change in sorted(changes, key=lambda change: change.path):
            after = change.after
            if after is None:
                self._remove(change.path)
            elif after.kind == "directory":
                self._make_directory(change.path, after.mode)
            else:
                above = self._room_for(change.path)
                assert isinstance(change.source, str)
                _move(change.source, above)
                if after.kind == "file":
                    os.chmod(above, after.mode)

    def _remove(self, path: str) -> None:
        if self.host(path) is None:
            return
        above = self._room_for(path)
        if _lstat(path) is not None:
            os.mknod(above, stat.S_IFCHR, os.makedev(0, 0))

    def _make_directory(self, path: str, mode: int) -> None:
        host = self.host(path)
        if host is not None and _is_directory(_lstat(host)):
            above = self._mirrored(path)
        else:
            above = self._room_for(path)
            os.mkdir(above)
            if _lstat(path) is not None:
                os.setxattr(above, _OPAQUE, b"y")
        os.chmod(above, mode | 0o700)

    def _room_for(self, path: str) -> str:
        """The name in the copies, with nothing at it and all directories on the way."""
        above = f"{self._mirrored(os.path.dirname(path))}/{os.path.basename(path)}"
        if _lstat(above) is not None:
            remove_tree(above)
        return above

    def _mirrored(self, folder: str) -> str:
        """A directory that lies over the one of the disk; where there is none, a new one."""
        above, below = self._top, ""
        for name in filter(None, folder.split("/")):
            above, below = f"{above}/{name}", f"{below}/{name}"
            status = _lstat(above)
            if status is not None and stat.S_ISDIR(status.st_mode):
                continue
            there = _lstat(below) if status is None else None
            if status is not None:
                os.unlink(above)
            os.mkdir(above)
            if status is not None and _lstat(below) is not None:
                os.setxattr(above, _OPAQUE, b"y")
            is_mirror = there is not None and stat.S_ISDIR(there.st_mode)
            mode = stat.S_IMODE(there.st_mode) | 0o700 if is_mirror and there else _DIRECTORY_MODE & ~_umask()
            os.chmod(above, mode)
        return above


def _lstat(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _is_directory(status: os.stat_result | None) -> bool:
    return status is not None and stat.S_ISDIR(status.st_mode)


def _is_gone(status: os.stat_result) -> bool:
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


def _is_opaque(folder: str) -> bool:
    try:
        return os.getxattr(folder, _OPAQUE, follow_symlinks=False) == b"y"
    except OSError:
        return False


def _move(source: str, above: str) -> None:
    """Out of a directory that the command may have closed, perhaps to another file system."""
    folder = os.path.dirname(source)
    if not os.access(folder, os.W_OK | os.X_OK):
        os.chmod(folder, 0o700)
    shutil.move(source, above)


def _umask() -> int:
    """As the system tells it: to set it in order to see it would be seen by other threads."""
    with suppress(OSError), open("/proc/self/status") as file:
        return next(int(line.split()[1], 8) for line in file if line.startswith("Umask:"))
    return 0o022

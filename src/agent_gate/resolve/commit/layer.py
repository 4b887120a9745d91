"""Changes to a directory, read from the layer above it that a command wrote into."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from msgspec.structs import replace

from agent_gate.model.bounds import CHANGES_DEPTH_MAX, OWN_TEXT_BYTES_MAX
from agent_gate.model.errors import GateError, Problem
from agent_gate.model.visible import visible
from agent_gate.resolve.commit.change import Change
from agent_gate.resolve.commit.node import KINDS, Identity, Node, node_at
from agent_gate.resolve.own_nearby import start_of
from agent_gate.resolve.own_watch import OwnWatch

_REPLACED = ("user.overlay.opaque", "trusted.overlay.opaque")
_ORIGIN = ("user.overlay.origin", "trusted.overlay.origin")
_CAPABILITIES = "security.capability"
_SPECIAL = {
    stat.S_IFIFO: "named pipe",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}


@dataclass(frozen=True, slots=True)
class Bounds:
    changes_max: int
    bytes_max: int
    """Of what was written and of what it replaces, together."""


@dataclass(slots=True)
class Found:
    changes: list[Change] = field(default_factory=list)
    problem: Problem | None = None
    """Reasons why none of it can be committed, whatever the policy says of each path."""


def read_layers(
    layers: Iterable[tuple[str, str]],
    discards: Callable[[str], bool],
    bounds: Bounds,
    started_ns: int,
    own_files: OwnWatch,
    disk: Beneath | None = None,
) -> Found:
    """Changes by path, up to the bounds; `layers` are places and what was written there. May wait for a disk.

    What changed on the disk itself after `started_ns`, by the clock of the files, is a conflict.
    `disk` is what lies beneath the layers, where that is not the disk as it is.
    """
    found, size = Found(), 0
    reader = _Reader(discards, own_files, disk or Disk())
    for place, layer in layers:
        try:
            for change in reader.changes(place, layer):
                size += sum(node.size for node in (change.before, change.after) if node)
                found.changes.append(change)
                found.problem = _conflict(change, started_ns) or _too_much(len(found.changes), size, bounds)
                if found.problem is not None:
                    return found
        except GateError as error:
            found.problem = error.problem
            return found
        except OSError as error:
            found.problem = _unreadable(place, error)
            return found
    found.changes.sort(key=lambda change: change.path)
    return found


def conflict(path: str) -> Problem:
    return Problem(
        2008,
        f"`{visible(path)}` was changed by another program while the command ran; nothing was written",
        "look at it, and call again",
        "perform",
    )


def _conflict(change: Change, started_ns: int) -> Problem | None:
    if change.identity is not None:
        return conflict(change.path) if change.identity.changed_ns > started_ns else None
    if change.moved_in and _changed_ns(os.path.dirname(change.path)) > started_ns:
        return conflict(change.path)
    return None


def _changed_ns(folder: str) -> int:
    status = _lstat(folder)
    return status.st_ctime_ns if status else 0


def _too_much(changes: int, size: int, bounds: Bounds) -> Problem | None:
    if changes > bounds.changes_max:
        detail = f"the command changed more than max_changes of shell.run ({bounds.changes_max}) files"
        return Problem(1006, detail, "raise it there, or let it change fewer files", "perform")
    if size > bounds.bytes_max:
        detail = f"what the command changed has more than max_changed_bytes of shell.run ({bounds.bytes_max})"
        return Problem(1006, detail, "raise it there, or let it write less", "perform")
    return None


def _refuse_if_deep(folder: str) -> None:
    """Reading goes down by calls, of which Python allows only so many."""
    if folder.count("/") > CHANGES_DEPTH_MAX:
        detail = f"the command changed what lies more than {CHANGES_DEPTH_MAX} directories deep"
        raise GateError.of(Problem(1006, detail, "let it make fewer directories inside one another", "perform"))


def _unreadable(place: str, error: OSError) -> Problem:
    shown = visible(os.fsdecode(error.filename or place))
    detail = f"what the command changed could not be read: `{shown}`: {error.strerror or error}"
    return Problem(
        2003, detail, "make it readable for the gate's user, or keep the command from changing it", "perform"
    )


class Beneath(Protocol):
    """The ground that a command's layers lie upon."""

    def lstat(self, path: str) -> os.stat_result | None: ...

    def names(self, path: str) -> list[str]: ...

    def host(self, path: str) -> str | None:
        """Find where it really stands."""
        ...


class Disk:
    def lstat(self, path: str) -> os.stat_result | None:
        return _lstat(path)

    def names(self, path: str) -> list[str]:
        return os.listdir(path)

    def host(self, path: str) -> str | None:
        return path


class _Reader:
    def __init__(self, discards: Callable[[str], bool], own_files: OwnWatch, disk: Beneath) -> None:
        self._discards, self._own_files, self._disk = discards, own_files, disk

    def changes(self, place: str, layer: str) -> Iterator[Change]:
        status = os.lstat(layer)
        if stat.S_ISDIR(status.st_mode):
            yield from self._mode_of_directory(place, status, self._disk.lstat(place))
            yield from self._below(layer, place, exists=True)
        else:
            yield from self._file(layer, place, status, self._disk.lstat(place))

    def _below(self, layer: str, folder: str, *, exists: bool) -> Iterator[Change]:
        _refuse_if_deep(folder)
        _open_up(layer)
        names = sorted(os.listdir(layer))
        for name in names:
            above, below = f"{layer}/{name}", f"{folder}/{name}"
            if not self._discards(below):
                yield from self._entry(above, below, os.lstat(above), self._disk.lstat(below) if exists else None)
        if exists and _is_replaced(layer):
            for name in sorted(set(self._disk.names(folder)).difference(names)):
                if not self._discards(f"{folder}/{name}"):
                    yield from self._removed(f"{folder}/{name}")

    def _entry(self, above: str, below: str, status: os.stat_result, there: os.stat_result | None) -> Iterator[Change]:
        kind = stat.S_IFMT(status.st_mode)
        if kind == stat.S_IFCHR and status.st_rdev == 0:
            if there is not None:
                yield from self._removed(below)
        elif kind == stat.S_IFDIR:
            yield from self._directory(above, below, status, there)
        else:
            if there is not None and stat.S_ISDIR(there.st_mode):
                yield from self._removed_below(below)
            yield from self._file(above, below, status, there)

    def _directory(
        self, above: str, below: str, status: os.stat_result, there: os.stat_result | None
    ) -> Iterator[Change]:
        if there is not None and stat.S_ISDIR(there.st_mode):
            yield from self._mode_of_directory(below, status, there)
            yield from self._below(above, below, exists=True)
            return
        after = Node("directory", stat.S_IMODE(status.st_mode))
        moved_in = there is None and _has_origin(above)
        yield self._change(below, there, after, obstacle=_bits_of_directory(above, status), moved_in=moved_in)
        yield from self._below(above, below, exists=False)

    def _mode_of_directory(self, path: str, status: os.stat_result, there: os.stat_result | None) -> Iterator[Change]:
        if there is not None and stat.S_IMODE(there.st_mode) != stat.S_IMODE(status.st_mode):
            after = Node("directory", stat.S_IMODE(status.st_mode))
            gained = status.st_mode & ~there.st_mode & (stat.S_ISUID | stat.S_ISGID)
            yield self._change(path, there, after, obstacle=_bits(status) if gained else "")

    def _file(self, above: str, below: str, status: os.stat_result, there: os.stat_result | None) -> Iterator[Change]:
        special = _SPECIAL.get(stat.S_IFMT(status.st_mode))
        if special is not None:
            yield self._change(below, there, Node(special, 0), obstacle=f"is a {special}")
            return
        obstacle = _several_names(status) or _bits(status) or _capabilities(above) or _leads_git(below)
        _open_up(above)
        after = node_at(above, os.lstat(above))
        if after.kind == "file":
            after = replace(after, mode=stat.S_IMODE(status.st_mode))
        if after.kind == "link" and not _is_text(after.target):
            obstacle = "leads to a name that is not UTF-8"
        change = self._change(below, there, after, above, obstacle, moved_in=there is None and _has_origin(above))
        before = change.before
        if before is None or not before.is_like(after) or before.mtime_ns != after.mtime_ns:
            yield change

    def _removed(self, path: str) -> Iterator[Change]:
        there = self._disk.lstat(path)
        if there is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        yield self._change(path, there, None)
        if stat.S_ISDIR(there.st_mode):
            yield from self._removed_below(path)

    def _removed_below(self, folder: str) -> Iterator[Change]:
        """Caches too: they really go, with the directory that they lie in."""
        _refuse_if_deep(folder)
        for name in sorted(self._disk.names(folder)):
            yield from self._removed(f"{folder}/{name}")

    def _change(
        self,
        path: str,
        there: os.stat_result | None,
        after: Node | None,
        source: str = "",
        obstacle: str = "",
        *,
        moved_in: bool = False,
    ) -> Change:
        if not _is_text(path):
            path, obstacle = visible(path), "has a name that is not UTF-8"
            there = None
        before = identity = same_as = None
        stands_at = (self._disk.host(path) or path) if there is not None else ""
        if there is not None:
            identity = Identity.of(there)
            if stat.S_IFMT(there.st_mode) in KINDS:
                before = node_at(stands_at, there)
            else:
                before, obstacle = Node("special", 0), "is neither a file, a directory nor a link"
            if before.kind == "file":
                same_as = self._own_files.name_of(there, path)
        links = there.st_nlink if there is not None else 1
        own = self._own_files.kind_with(
            path, lambda: (start_of(source, OWN_TEXT_BYTES_MAX + 1) if source else b"") or b""
        )
        return Change(path, before, after, identity, links, same_as, own, source, obstacle, moved_in, stands_at)


def _lstat(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _open_up(path: str) -> None:
    """The layer is ours, whatever the command has forbidden there."""
    if not os.path.islink(path) and not os.access(path, os.R_OK | os.X_OK if os.path.isdir(path) else os.R_OK):
        os.chmod(path, 0o700)


def _several_names(status: os.stat_result) -> str:
    return "has several names (hard links)" if status.st_nlink > 1 else ""


def _leads_git(path: str) -> str:
    """A file in the place of a repository's directory names another, with settings and hooks of its own."""
    return "would lead git to another repository's settings" if os.path.basename(path) == ".git" else ""


def _bits(status: os.stat_result) -> str:
    return "has a set-uid or set-gid bit" if status.st_mode & (stat.S_ISUID | stat.S_ISGID) else ""


def _bits_of_directory(above: str, status: os.stat_result) -> str:
    """A new directory has the set-gid bit of the one around it, which says whose files those in it are."""
    around = os.lstat(os.path.dirname(above)).st_mode
    inherits = not status.st_mode & stat.S_ISUID and around & stat.S_ISGID
    return "" if inherits else _bits(status)


def _capabilities(path: str) -> str:
    with suppress(OSError):
        os.getxattr(path, _CAPABILITIES, follow_symlinks=False)
        return "has capabilities"
    return ""


def _is_replaced(folder: str) -> bool:
    return _has_attribute(folder, _REPLACED, b"y")


def _has_origin(path: str) -> bool:
    """Tell whether it was on the disk, under this name or another, when the command first changed it."""
    return _has_attribute(path, _ORIGIN)


def _has_attribute(path: str, names: Iterable[str], value: bytes | None = None) -> bool:
    for name in names:
        with suppress(OSError):
            found = os.getxattr(path, name, follow_symlinks=False)
            if value is None or found == value:
                return True
    return False

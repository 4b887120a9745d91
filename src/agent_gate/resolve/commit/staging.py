"""Stages a commit beside its places: complete, with owners, modes and times, before anything moves."""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from agent_gate.resolve.commit.change import Change
from agent_gate.resolve.commit.folders import Folders
from agent_gate.resolve.commit.node import Node
from agent_gate.resolve.commit.units import Group

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_ACCESS_LIST = "system.posix_acl_access"


def stage(group: Group, name: str, folders: Folders) -> tuple[int, int]:
    """Write the group's new state under a name beside its path; device and inode of what waits there."""
    folder, _ = folders.of(group.top.path)
    owner = _owner(group.top, folders)
    _make(folder, name, group.top, owner)
    if group.top.after is not None and group.top.after.kind == "directory":
        _fill(folder, name, group)
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    return status.st_dev, status.st_ino


def _owner(change: Change, folders: Folders) -> os.stat_result | None:
    """Whoever owns a file that is changed; what is new belongs to whom its directory says."""
    before, after = change.before, change.after
    if before is None or after is None or before.kind != "file" or after.kind != "file":
        return None
    return folders.status(change.path)


def _make(folder: int, name: str, change: Change, owner: os.stat_result | None = None) -> None:
    node = change.after
    assert node is not None
    if node.kind == "directory":
        os.mkdir(name, 0o700 | node.mode & 0o777, dir_fd=folder)
    elif node.kind == "link":
        os.symlink(node.target, name, dir_fd=folder)
    else:
        _write_file(folder, name, change, node, owner)


def _write_file(folder: int, name: str, change: Change, node: Node, owner: os.stat_result | None) -> None:
    # What replaces a file is nobody else's before it has that file's owner and mode.
    number = os.open(name, _NEW, node.mode & 0o777 if owner is None else 0o600, dir_fd=folder)
    try:
        left = memoryview(change.content())
        while left:
            left = left[os.write(number, left) :]
        if owner is not None:
            made = os.fstat(number)
            if (made.st_uid, made.st_gid) != (owner.st_uid, owner.st_gid):
                os.fchown(number, owner.st_uid, owner.st_gid)
            _copy_access_list(change.path, number)
        _set_mode(number, node, by_directory=owner is None)
        for key, value in node.attributes.items():
            os.setxattr(number, key, value)
        os.utime(number, ns=(node.mtime_ns, node.mtime_ns))
    finally:
        os.close(number)


def _set_mode(number: int, node: Node, *, by_directory: bool) -> None:
    """The directory's default list of access, where it has one, has said what a new file's mode is."""
    if by_directory and _has_access_list(number):
        return
    if stat.S_IMODE(os.fstat(number).st_mode) != node.mode:
        os.fchmod(number, node.mode)


def _has_access_list(number: int) -> bool:
    with suppress(OSError):
        return _ACCESS_LIST in os.listxattr(number)
    return False


def _copy_access_list(path: str, number: int) -> None:
    with suppress(OSError):
        os.setxattr(number, _ACCESS_LIST, os.getxattr(path, _ACCESS_LIST, follow_symlinks=False))


def _fill(folder: int, name: str, group: Group) -> None:
    """Stage what lies below a new directory; modes of directories last, since one may forbid writing into it."""
    top = group.top.path
    directories = [(name, group.top)]
    for change in group.below:
        if change.after is None:
            continue
        place = f"{name}{change.path[len(top) :]}"
        _make(folder, place, change)
        if change.after.kind == "directory":
            directories.append((place, change))
    for place, change in reversed(directories):
        assert change.after is not None
        number = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            kept = os.fstat(number).st_mode & stat.S_ISGID
            if not _has_access_list(number):
                os.fchmod(number, change.after.mode & ~stat.S_ISGID | kept)
        finally:
            os.close(number)

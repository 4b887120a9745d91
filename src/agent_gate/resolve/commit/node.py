"""A node of the file system: a file, a directory or a symbolic link, with all of it that a commit brings back."""

from __future__ import annotations

import hashlib
import os
import stat
from contextlib import suppress

from msgspec import Struct

KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_CHUNK_BYTES = 1_048_576
_KEPT_ATTRIBUTES = "user."
_OF_OVERLAYS = "user.overlay."


class Identity(Struct, frozen=True):
    """Identity of the thing, and proof that nobody has touched it since: nobody can set the time of change."""

    device: int
    inode: int
    changed_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> Identity:
        return cls(status.st_dev, status.st_ino, status.st_ctime_ns)

    def is_same_thing(self, status: os.stat_result | None) -> bool:
        """Tell whether it is still this thing, touched or not."""
        return status is not None and (status.st_dev, status.st_ino) == (self.device, self.inode)


class Node(Struct, frozen=True, omit_defaults=True):
    kind: str
    mode: int
    """Permission bits."""
    size: int = 0
    mtime_ns: int = 0
    sha256: str = ""
    """Of a file's content."""
    target: str = ""
    """Of a link."""
    attributes: dict[str, bytes] = {}
    """`user.*` of a file."""

    def is_like(self, other: Node) -> bool:
        """The same but for times; modes of links mean nothing."""
        if self.kind == "link" == other.kind:
            return self.target == other.target
        alike = (self.kind, self.mode, self.sha256) == (other.kind, other.mode, other.sha256)
        return alike and (self.kind == "directory" or self.attributes == other.attributes)


def node_at(path: str, status: os.stat_result) -> Node:
    """The node of a file, directory or link; OSError where it cannot be read."""
    kind, mode = KINDS[stat.S_IFMT(status.st_mode)], stat.S_IMODE(status.st_mode)
    if kind == "directory":
        return Node(kind, mode)
    if kind == "link":
        target = os.readlink(path)
        return Node(kind, 0o777, len(os.fsencode(target)), target=target)
    number = os.open(path, _OPEN)
    try:
        if not os.path.samestat(os.fstat(number), status):
            raise FileNotFoundError(f"`{path}` was replaced in this moment")
        return Node(kind, mode, status.st_size, status.st_mtime_ns, _digest(number), attributes=attributes_of(number))
    finally:
        os.close(number)


def content_of(path: str, node: Node) -> bytes:
    """The content that the node tells of; OSError where that is not there any more."""
    number = os.open(path, _OPEN)
    try:
        data = b"".join(iter(lambda: os.read(number, _CHUNK_BYTES), b""))
    finally:
        os.close(number)
    if hashlib.sha256(data).hexdigest() != node.sha256:
        raise FileNotFoundError(f"`{path}` was rewritten in this moment")
    return data


def _digest(number: int) -> str:
    digest = hashlib.sha256()
    while chunk := os.read(number, _CHUNK_BYTES):
        digest.update(chunk)
    return digest.hexdigest()


def attributes_of(number: int) -> dict[str, bytes]:
    """Those that users give; those of the system, such as labels and lists of access, belong to a place."""
    found: dict[str, bytes] = {}
    with suppress(OSError):
        for name in os.listxattr(number):
            if name.startswith(_KEPT_ATTRIBUTES) and not name.startswith(_OF_OVERLAYS):
                found[name] = os.getxattr(number, name)
    return found

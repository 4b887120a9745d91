"""A path resolved once, to a descriptor: its real name is what is judged, and the descriptor is what is used."""

from __future__ import annotations

import errno
import os
import stat
import sys
from typing import NamedTuple

from agent_gate.model.bounds import PATH_BYTES_MAX
from agent_gate.model.errors import PolicyDeniedError, ToolError
from agent_gate.model.tool import Json
from agent_gate.model.visible import visible
from agent_gate.policy.guards.path_patterns import normal
from agent_gate.resolve import openat2
from agent_gate.resolve.descriptors import Descriptor, real_name
from agent_gate.resolve.own_watch import OwnWatch
from agent_gate.resolve.walk import Walked, walk

KINDS = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFLNK: "link",
    stat.S_IFIFO: "named pipe",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}
_DELETED = " (deleted)"
_SLASH = ord("/")


class Target(NamedTuple):
    """A resolved path, held open until released; of something absent, the directory that is nearest to it."""

    path: str
    """The real name, or the one that it would have."""
    kind: str
    """`file`, `absent`, or what else it is."""
    descriptor: Descriptor
    status: os.stat_result | None = None
    rest: tuple[str, ...] = ()
    """Names that are not there: of directories, and last that of the file."""
    obstacle: str = ""
    """The reason why it is absent for good: nothing can be made there either."""
    same_as: str | None = None
    """The file of the gate's own that this is another name of."""
    own: str = ""
    """`secret` or `protected` where it is one of the gate's own files."""
    copy: str = ""
    """Its real place, if a simulation has made it."""

    @property
    def identity(self) -> dict[str, Json]:
        """Device and inode as texts, because they may have 64 bits."""
        if self.status is None:
            return {}
        device = self.status.st_dev
        return {"device": f"{os.major(device)}:{os.minor(device)}", "inode": str(self.status.st_ino)}

    @property
    def found(self) -> dict[str, Json]:
        """Facts that the guard wants to know besides the name."""
        seen: dict[str, Json] = {"type": self.kind}
        if self.status is not None:
            seen["size"] = self.status.st_size
            if self.status.st_nlink > 1 and self.kind == "file":
                seen["nlink"] = self.status.st_nlink
        if self.same_as is not None:
            seen["same_as"] = self.same_as
        if self.own:
            seen["own"] = self.own
        return seen

    def release(self) -> None:
        self.descriptor.leave()


class PathResolver:
    """Resolves paths as one gate sees them: relative to its working directory."""

    def __init__(self, working_dir: str, own_files: OwnWatch | None = None, *, by_walking: bool = False) -> None:
        """`by_walking` does without openat2, as where there is none."""
        self.working_dir = working_dir
        self._base = f"{working_dir}/".encode()
        self.own_files = own_files or OwnWatch()
        self._walks = by_walking or not openat2.is_available()
        self._at_once = not self._walks and openat2.is_available_at_once()

    def resolve_at_once(self, path: str) -> Target | None:
        """Resolve what exists and can be found without waiting for a disk; None for all else."""
        if not self._at_once:
            return None
        try:
            descriptor = openat2.open_path_at_once(self._absolute(path))
        except OSError:
            return None
        return None if descriptor is None else self._existing(path, descriptor)

    def resolve(self, path: str) -> Target:
        """May wait for a disk. ToolError 2002 for a text that is no path; PolicyDeniedError for a way through /proc."""
        text = self._absolute(path)
        try:
            if not self._walks:
                return self._existing(path, openat2.open_path(text))
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise _too_many_links(path) from None
        return self._walked(path, text.decode())

    def _absolute(self, path: str) -> bytes:
        try:
            encoded = path.encode()
        except UnicodeEncodeError:
            raise ToolError("the path holds half of a surrogate pair", code=2002, suggestion="write UTF-8") from None
        _refuse_malformed(path, encoded)
        return encoded if encoded[0] == _SLASH else self._base + encoded

    def _existing(self, path: str, number: int, walked: Walked | None = None) -> Target:
        descriptor = Descriptor(number)
        try:
            status = os.fstat(number)
            name = _name_of(path, number, walked)
            if name.endswith(_DELETED) and not _is_at(name, status):
                raise ToolError(f"`{visible(path)}` was deleted a moment ago", suggestion="call again")
        except BaseException:
            descriptor.leave()
            raise
        kind = KINDS.get(stat.S_IFMT(status.st_mode), "thing of an unknown kind")
        own = self.own_files
        return Target(name, kind, descriptor, status, (), "", own.name_of(status, name), own.kind_of(name))

    def _walked(self, path: str, text: str) -> Target:
        try:
            walked = walk(text)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise _too_many_links(path) from None
            raise ToolError(f"`{visible(path)}` could not be looked at: {error.strerror}") from None
        if not walked.error:
            return self._existing(path, walked.descriptor, walked)
        descriptor = Descriptor(walked.descriptor)
        try:
            nearest = _name_of(path, walked.descriptor, walked)
        except BaseException:
            descriptor.leave()
            raise
        would_be = normal("/".join((nearest, *walked.rest)))
        own = self.own_files.kind_of(would_be)
        return Target(would_be, "absent", descriptor, rest=walked.rest, obstacle=_obstacle(walked), own=own)


def _refuse_malformed(path: str, encoded: bytes) -> None:
    """Refuse what no file can be called, whatever the world is like."""
    if not encoded or b"\0" in encoded:
        raise ToolError(f"the path {'holds a NUL' if path else 'is empty'}", code=2002, suggestion="name a file")
    if len(encoded) > PATH_BYTES_MAX:
        raise ToolError(f"the path has {len(encoded)} bytes, more than {PATH_BYTES_MAX}", code=2002)
    if encoded.endswith((b"/", b"/.")) or encoded == b".":
        raise ToolError(f"`{visible(path)}` names a directory", code=2002, suggestion="name a file")


def _name_of(path: str, number: int, walked: Walked | None) -> str:
    if sys.platform != "linux" and walked is not None:
        name = "/" + "/".join(walked.names)
    else:
        name = real_name(number)
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ToolError(
            f"`{visible(path)}` leads to a name that is not UTF-8", code=2002, suggestion="rename the file"
        ) from None
    if not name.startswith("/"):
        raise PolicyDeniedError(f"`{visible(path)}` is outside of what the gate can see", code=1002)
    return name


def _is_at(name: str, status: os.stat_result) -> bool:
    """Tell whether a name that looks like a deleted file's is really that of this one."""
    try:
        return os.path.samestat(os.stat(name, follow_symlinks=False), status)
    except OSError:
        return False


def _obstacle(walked: Walked) -> str:
    if walked.by_link:
        return "is a link to something that does not exist"
    if ".." in walked.rest:
        return "leads through a directory that does not exist"
    if walked.error != errno.ENOENT:
        return f"cannot be reached: {os.strerror(walked.error)}"
    return ""


def _too_many_links(path: str) -> PolicyDeniedError:
    return PolicyDeniedError(
        f"`{visible(path)}` leads through a link of /proc, or through too many links",
        code=1002,
        suggestion="name the file by its real path",
    )

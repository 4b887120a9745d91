"""Paths resolved as a simulation finds them: in its copies where an earlier step has been, else on the disk."""

from __future__ import annotations

import os

from agent_gate.resolve.copies import Copies
from agent_gate.resolve.descriptors import Descriptor
from agent_gate.resolve.openat2 import O_PATH
from agent_gate.resolve.paths import KINDS, PathResolver, Target

_OPEN = O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


class CopiedPaths(PathResolver):
    """The same answers as for the disk; a file of the copies has the name that it would really have."""

    def __init__(self, on_disk: PathResolver, copies: Copies) -> None:
        super().__init__(on_disk.working_dir, on_disk.own_files)
        self._on_disk, self._copies = on_disk, copies

    def resolve_at_once(self, path: str) -> Target | None:  # noqa: ARG002 -- copies have to be looked for
        return None

    def resolve(self, path: str) -> Target:
        real = self._copies.real_name(self._absolute(path).decode())
        host = self._copies.host(real)
        if host is None:
            return self._absent(path, real)
        status = os.lstat(host)
        if host == real or len(self._copies.sources(real)) > 1:
            found = self._on_disk.resolve(path)
            if found.path == real:
                return found
            found.release()  # a link of the copies leads elsewhere
            return self._on_disk.resolve(real)
        descriptor = Descriptor(os.open(host, _OPEN))
        kind = KINDS.get(status.st_mode & 0o170000, "thing of an unknown kind")
        return Target(real, kind, descriptor, status, own=self.own_files.kind_of(real), copy=host)

    def _absent(self, path: str, real: str) -> Target:
        nearest, rest = os.path.dirname(real), [os.path.basename(real)]
        while (host := self._copies.host(nearest)) is None:
            rest.insert(0, os.path.basename(nearest))
            nearest = os.path.dirname(nearest)
        found = self._on_disk.resolve(path) if host == nearest else None
        if found is not None:
            if found.path == real and found.kind == "absent":
                return found
            found.release()
        obstacle = self._obstacle(path) if os.path.isdir(host) else "cannot be reached: Not a directory"
        descriptor = Descriptor(os.open(host, _OPEN))
        own = self.own_files.kind_of(real)
        return Target(real, "absent", descriptor, rest=tuple(rest), obstacle=obstacle, own=own)

    def _obstacle(self, path: str) -> str:
        """Make nothing in the place of a link that leads to nothing."""
        folder, name = os.path.split(self._absolute(path).decode())
        named = f"{self._copies.real_name(folder).rstrip('/')}/{name}"
        return "is a link to something that does not exist" if self._copies.host(named) is not None else ""

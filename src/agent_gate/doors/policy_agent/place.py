"""The place where the agent listens: a path that is ours alone, a socket that is never wider than it should be."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agent_gate.doors.codes import Unreachable
from agent_gate.model.errors import ConfigError

PATH_BYTES_MAX = 107
"""Bytes that the kernel takes as the path of a Unix socket."""
OURS_ONLY = 0o177
"""The umask under which a socket gets 0600 and is never wider, not for a moment."""
FOR_ANYBODY = 0o111
"""The umask for 0666: who comes is looked at by the relay."""
_PRIVATE, _PASSABLE = 0o700, 0o711
_PROBE_TIMEOUT_S = 2.0


def default_socket_path() -> Path:
    """In a directory of this user's own."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime:
        return Path(runtime) / "agent-gate" / "policy-agent.sock"
    return Path("/run/agent-gate" if os.geteuid() == 0 else Path.home() / ".agent-gate") / "policy-agent.sock"


@contextmanager
def claimed(path: Path, *, for_others: bool = False) -> Iterator[None]:
    """The path is ours while the block runs: free before it, and gone after it.

    What an agent left behind that was killed is removed; where somebody listens, or a file is no socket, it stays.
    """
    if len(os.fsencode(path)) > PATH_BYTES_MAX:
        raise ConfigError(
            f"the path of the socket has more than {PATH_BYTES_MAX} bytes: `{path}`", suggestion="choose a shorter one"
        )
    try:
        _make_directory(path.parent, for_others=for_others)
        lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise _unusable(path, error) from None
    try:
        _lock(lock, path)
        _remove_stale(path)
        try:
            yield
        finally:
            with suppress(OSError):
                path.unlink(missing_ok=True)
    finally:
        os.close(lock)


def _make_directory(directory: Path, *, for_others: bool) -> None:
    try:
        directory.mkdir(mode=_PRIVATE, parents=True)
    except FileExistsError:
        _check_directory(directory, for_others=for_others)
    else:
        directory.chmod(_PASSABLE if for_others else _PRIVATE)


def _check_directory(directory: Path, *, for_others: bool) -> None:
    """Whoever can change the directory can put a socket of their own in place of ours."""
    status = directory.stat()
    if not stat.S_ISDIR(status.st_mode):
        raise ConfigError(f"`{directory}` is not a directory", suggestion="choose another path for the socket")
    is_shared = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not status.st_mode & stat.S_ISVTX
    if is_shared or status.st_uid not in (0, os.geteuid()):
        raise ConfigError(
            f"others can change `{directory}`, and put a socket of their own in place of the agent's",
            suggestion="name a directory that does not exist yet, or one that only its owner can write to",
        )
    if for_others and not status.st_mode & stat.S_IXOTH:
        raise ConfigError(
            f"the users of allow_uids cannot reach into `{directory}`",
            suggestion="`chmod 711` it, or name a directory that does not exist yet",
        )


def _lock(lock: int, path: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise _in_use(path) from None


def _remove_stale(path: Path) -> None:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode):
        raise ConfigError(f"`{path}` is there, and no socket", suggestion="choose another path for the socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PROBE_TIMEOUT_S)
        try:
            probe.connect(os.fspath(path))
        except OSError as error:
            if error.errno != errno.ECONNREFUSED:
                raise _in_use(path) from None
        else:
            raise _in_use(path)
    path.unlink()


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def _in_use(path: Path) -> Unreachable:
    return Unreachable(
        f"somebody listens at `{path}` already", suggestion="end that agent, or choose another path for the socket"
    )


def _unusable(path: Path, error: OSError) -> Unreachable:
    return Unreachable(
        f"cannot listen at `{path}`: {(error.strerror or str(error)).lower()}", suggestion="choose another path"
    )

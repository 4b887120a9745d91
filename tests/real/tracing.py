"""Runs a program under strace, and tells what it did to files."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

_OPENS = ("open", "openat", "openat2", "creat")
_CHANGES = (
    *("unlink", "unlinkat", "rename", "renameat", "renameat2", "mkdir", "mkdirat", "rmdir", "link", "linkat"),
    *("symlink", "symlinkat", "mknod", "mknodat", "chmod", "fchmod", "fchmodat", "chown", "fchown", "lchown"),
    *("fchownat", "truncate", "ftruncate", "utimensat", "setxattr", "lsetxattr", "fsetxattr", "bind", "connect"),
)
_TRACED = ",".join(f"?{name}" for name in (*_OPENS, *_CHANGES, "execve", "execveat", "getdents64"))
_STRACE = ("strace", "-f", "-qq", "-y", "-xx", "-s", "4096", "-e", f"trace={_TRACED}")
_CALL = re.compile(
    r"\d+ +(?P<name>\w+)\((?P<args>.*?)(?:\) += (?P<result>-?\d+)(?:<(?P<path>[^>]*)>)?.*| <unfinished.*)"
)
_STRING = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
_WRITES = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_TMPFILE")
_FOLDER = re.compile(r"\d+<([^>]*)>")
_NOWHERE = frozenset({"/dev/null", "/dev/tty", "/var/run/nscd/socket"})
"""What may be written to: devices, and the daemon that C libraries ask for the names of users, where there is one."""
_ENV = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "LANG": "C.UTF-8", "LESSSECURE": "1"}


class Trace(NamedTuple):
    opened: frozenset[str]
    """Real paths of files that were opened for reading, and of directories whose names were read."""
    changed: tuple[str, ...]
    """Calls that changed something, or tried to."""
    started: tuple[str, ...]
    """Programs, the first one left out."""
    printed: bytes = b""


def trace(argv: Sequence[str], folder: Path, scratch: Path, timeout_s: float, env: Mapping[str, str] = _ENV) -> Trace:
    """Runs it in a folder, with temporary files in `scratch`; whatever has not ended by then is ended."""
    log, temporary, printed = scratch / "trace", scratch / "tmp", scratch / "printed"
    temporary.mkdir(exist_ok=True)
    with printed.open("wb") as output:
        process = subprocess.Popen(
            [*_STRACE, "-o", str(log), "--", *argv],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**env, "TMPDIR": str(temporary)},
            start_new_session=True,
        )
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return _read(log.read_text(), folder, f"{temporary}/")._replace(printed=printed.read_bytes())


def _read(text: str, folder: Path, temporary: str) -> Trace:
    opened: set[str] = set()
    changed: list[str] = []
    started: list[str] = []
    for found in filter(None, map(_CALL.match, text.splitlines())):
        name, args, path = found["name"], found["args"], _text(found["path"] or "")
        words = [_text(word) for word in _STRING.findall(args)]
        failed = (found["result"] or "").startswith("-")
        if name.startswith("execve"):
            started += [] if failed else words[:1]
        elif name == "getdents64":
            opened |= {_text(read[1]) for read in [_FOLDER.match(args)] if read}
        elif name in _OPENS and name != "creat" and not _WRITES.search(args):
            real = path or os.path.realpath(folder / words[0])
            opened |= set() if failed or os.path.isdir(real) else {real}
        elif not words or not (words[0] in _NOWHERE or words[0].startswith(temporary)):
            changed.append(f"{name} {' '.join(words)}")
    return Trace(frozenset(opened), tuple(changed), tuple(started[1:]))


def _text(escaped: str) -> str:
    return os.fsdecode(bytes.fromhex(escaped.replace("\\x", "")))

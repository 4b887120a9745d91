"""Commands held by a process of the gate's own: with Landlock and seccomp through sandlock, or by nothing at all."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from agent_gate.model.bounds import SHELL_OPEN_FILES_MAX
from agent_gate.sandbox.command import Access, Command
from agent_gate.sandbox.launch import Launch

_START = (
    "import sys; sys.path[:] = sys.argv[3:]; from agent_gate.sandbox.inside import main;"
    " main(int(sys.argv[1]), int(sys.argv[2]))"
)
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_OF_ETC = ("/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_METADATA_CALLS = (
    *("chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat"),
    *("utime", "utimes", "futimesat", "utimensat", "setxattr", "lsetxattr", "fsetxattr", "setxattrat"),
    *("removexattr", "lremovexattr", "fremovexattr", "removexattrat"),
)
"""Landlock does not cover what a file's name, owner and times are; so nobody inside may change them, inside either."""


class Sandlock:
    name = "sandlock"
    layers = False

    def wrap(self, command: Command) -> Launch:
        places = command.view.places
        limits = command.limits
        rules = {
            "readable": [
                *(path for path in (*_SYSTEM, *_OF_ETC, *_DEVICES) if os.path.exists(path)),
                command.executable,
                *(place.path for place in places if place.access is Access.READ),
            ],
            "writable": ["/dev/null", *(place.path for place in places if place.access is Access.WRITE)],
            "denied": [place.path for place in places if place.access is Access.NONE],
            "deny_syscalls": list(_METADATA_CALLS),
            "memory_bytes": limits.memory_bytes,
            "processes": limits.processes if command.starts_programs else 1,
        }
        return _launch(command, {"sandlock": rules})


class Unconfined:
    """`sandbox: off`: limits of time, memory and output hold, and nothing keeps it from what its user may do."""

    name = "off"
    layers = False

    def wrap(self, command: Command) -> Launch:
        return _launch(command, {})


def _launch(command: Command, besides: Mapping[str, Any]) -> Launch:
    reports, reported = os.pipe()
    waited_for, starts_on = os.pipe()
    watched, lifeline = os.pipe()
    launch = Launch(reports=reports, starts_on=starts_on, lifeline=lifeline, own=[reported, waited_for, watched])
    try:
        launch.scratch = tempfile.mkdtemp(prefix="agent-gate-")
        order = {
            "argv": command.argv,
            "executable": command.executable,
            "descriptor": command.descriptor,
            "cwd": command.cwd,
            "env": {**command.env, "TMPDIR": launch.scratch},
            "tmp": launch.scratch,
            "starts_on": waited_for,
            "lifeline": watched,
            "limits": {
                "data": command.limits.memory_bytes,
                "file": command.limits.file_bytes,
                "open": SHELL_OPEN_FILES_MAX,
                "core": 0,
            },
            **besides,
        }
        number = launch.file(json.dumps(order).encode())
        launch.argv = (sys.executable, "-I", "-c", _START, number, str(reported), *_import_paths())
        launch.lent = (command.descriptor,)
    except BaseException:
        launch.close()
        raise
    return launch


def _import_paths() -> Sequence[str]:
    return [path for path in sys.path if path]

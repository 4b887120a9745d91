"""Bounds that the kernel holds a process and its children to."""

from __future__ import annotations

import math
import os
import resource

from agent_gate.model.bounds import SHELL_OPEN_FILES_MAX
from agent_gate.sandbox.command import Limits

SET_UP_BYTES = 4_096
"""Room for what bubblewrap writes under the same limits before the command begins: its files of users and groups."""


def limit(pid: int, limits: Limits) -> None:
    """Put a process that has not begun yet, and all that it will start, under limits."""
    for what, most in (
        # The data that is its own: programs that only reserve much address space are not cut off.
        (resource.RLIMIT_DATA, limits.memory_bytes),
        # Besides its own first process and the one that reaps it. The kernel exempts root from this one.
        (resource.RLIMIT_NPROC, limits.processes + 2),
        # What no gate ends, because it was killed just now, ends when it has used up all time that it could have had.
        (resource.RLIMIT_CPU, math.ceil(limits.timeout_s) * (os.cpu_count() or 1) + 1),
        (resource.RLIMIT_FSIZE, max(limits.file_bytes, SET_UP_BYTES)),
        (resource.RLIMIT_NOFILE, SHELL_OPEN_FILES_MAX),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        _lower(pid, what, most)


def _lower(pid: int, what: int, most: int) -> None:
    hard = resource.prlimit(pid, what)[1]
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.prlimit(pid, what, (most, most))

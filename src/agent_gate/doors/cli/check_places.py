"""Places where guards of a checked policy stand, and the gate's own files there."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from agent_gate.model.ledger_names import DEFAULT_LEDGER, LEDGER_VARIABLE
from agent_gate.model.policy import Policy
from agent_gate.model.tool import Json
from agent_gate.policy.judge import Judge
from agent_gate.resolve.own_watch import OwnWatch
from agent_gate.resolve.ownership import Start, find_own
from agent_gate.resolve.surroundings import look_around, real_directory
from agent_gate.tools.check import Looked

DIRECTORIES_MAX = 64
"""Working directories whose own files are kept in mind."""


class Places:
    """Working directories, and the gate's own files there, of runs under the policy of one file."""

    def __init__(self, policy: Path) -> None:
        self._policy = policy
        self._own: dict[str, OwnWatch] = {}

    def judge(self, policy: Policy, working_dir: str) -> Judge:
        """Return a judge that knows where its guards stand, and which files are the gate's own."""
        real = real_directory(working_dir or None)
        own = self._own_files(real).now()
        return Judge(policy, look_around(policy, real, protected=own.unwritten, secret=own.secret))

    def look(self, tool: str, judge: Judge, *, resolve: bool) -> Callable[[Mapping[str, Json]], Looked]:
        """Return what finds signatures, resources and facts of a call; names are looked up only on request."""
        # For speed: services and sandboxes, which only a call of a guarded tool needs.
        from agent_gate.doors.cli.check_targets import look  # noqa: PLC0415

        own = self._own_files(judge.surroundings.working_dir)
        return lambda args: look(tool, args, judge, own, resolve=resolve)

    def _own_files(self, working_dir: str) -> OwnWatch:
        """Watch those of a run with this policy and the ledger that it would write to."""
        own = self._own.get(working_dir)
        if own is None:
            if len(self._own) >= DIRECTORIES_MAX:
                self._own.clear()
            ledger = os.environ.get(LEDGER_VARIABLE) or DEFAULT_LEDGER
            start = Start.of(working_dir, [] if "://" in ledger else [ledger], protected=[self._policy])
            own = self._own[working_dir] = OwnWatch(partial(find_own, start), working_dir)
        return own

"""The place of a gate: its working directory and its own files, the same for every policy that comes into force."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

from agent_gate.model.bounds import OWN_FILES_FRESH_S
from agent_gate.model.policy import Policy
from agent_gate.model.tool import Json
from agent_gate.policy.guards import Surroundings
from agent_gate.policy.judge import Judge
from agent_gate.resolve.own_watch import OwnWatch
from agent_gate.resolve.ownership import Start, find_own, note_own
from agent_gate.resolve.paths import PathResolver
from agent_gate.resolve.surroundings import look_around

PolicySource: TypeAlias = Policy | str | Path | Mapping[str, Json]


class Workspace:
    """Makes the judge of each policy, and resolves paths, with the gate's own files kept out of reach."""

    def __init__(
        self,
        working_dir: str,
        db: str | Path,
        policy: PolicySource,
        secret_files: Sequence[str | Path] = (),
        protected_files: Sequence[str | Path] = (),
        fresh_s: float = OWN_FILES_FRESH_S,
    ) -> None:
        self.working_dir = working_dir
        named = (policy,) if isinstance(policy, str | Path) else ()
        self._start = Start.of(working_dir, [db], secret_files, [*named, *protected_files])
        self._own = OwnWatch(partial(find_own, self._start), working_dir, fresh_s)

    def judge(self, policy: Policy) -> Judge:
        """Knows the gate's own files as of now; those that come later are found when a path is resolved."""
        self._own.look()
        return Judge(policy, self.look(policy))

    def look(self, policy: Policy) -> Surroundings:
        own = self._own.now()
        return look_around(policy, self.working_dir, protected=own.unwritten, secret=own.secret)

    def resolver(self) -> PathResolver:
        return PathResolver(self.working_dir, self._own)

    def note(self) -> None:
        """Let other gates of this user know which files are this one's."""
        note_own(self._start)

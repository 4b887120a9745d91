"""Layers of commands: whether a command has them, where they lie, and what is read from them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from agent_gate.model.policy import Policy
from agent_gate.policy.guards.path_patterns import compile_patterns
from agent_gate.policy.guards.programs import Reach, Use
from agent_gate.policy.guards.surroundings import Surroundings
from agent_gate.resolve.commit.layer import Bounds, Found, read_layers
from agent_gate.resolve.commit.steps import file_list
from agent_gate.resolve.copies import Copies
from agent_gate.resolve.own_watch import OwnWatch
from agent_gate.resolve.scratch import Scratch, clear_left_behind
from agent_gate.resolve.threads import FileThreads
from agent_gate.sandbox.choice import Choice, Sandbox

IN_LAYERS = frozenset({"judge", "ask"})
"""Values of `writes` with which what a command writes is kept apart until it is judged."""


def writes_of(policy: Policy, use: Use | None) -> str:
    """Decide what becomes of what a command writes: as the policy says, where it can write at all."""
    section = policy.guards.shell_run
    if section is None:
        return "none"
    if section.sandbox == "off":
        return "direct"
    may_write = use is not None and use.starts_programs and use.reach is Reach.ALL
    return section.writes if may_write and policy.guards.fs_write is not None else "none"


class Layering:
    def __init__(
        self,
        choice: Choice,
        own_files: OwnWatch,
        working_dir: str,
        around: Callable[[Policy], Surroundings],
        notes: str | None,
    ) -> None:
        """`notes` is a directory of ours where the names of what is staged stand until the ledger has them."""
        self._choice, self.own_files, self._working_dir, self._around = choice, own_files, working_dir, around
        self._notes = notes
        self._cleared: set[str] = set()

    async def scratch(
        self, sandbox: Sandbox, writable: Sequence[str], threads: FileThreads, copies: Copies | None = None
    ) -> Scratch:
        """A new directory for the layers of one command; what a simulation keeps lies in the same place."""
        place = await self._choice.scratch(sandbox, writable)
        if place not in self._cleared:
            self._cleared.add(place)
            await threads.run(partial(clear_left_behind, place))
        if copies is not None:
            await threads.run(partial(copies.open, place))
        return Scratch(place)

    def file_list(self, call_id: str) -> str:
        return file_list(self._notes or tempfile.gettempdir(), call_id)

    def read(
        self, layers: Iterable[tuple[str, str]], started_ns: int, policy: Policy, copies: Copies | None = None
    ) -> Found:
        """Read what a command wrote, under its policy's bounds. May wait for a disk."""
        section = policy.guards.shell_run
        assert section is not None
        links = self._around(policy).links
        patterns = compile_patterns(section.discard_paths, self._working_dir, links, denies=True)

        def discards(path: str) -> bool:
            return any(pattern.matches(path) for pattern in patterns)

        bounds = Bounds(section.max_changes, section.max_changed_bytes)
        return read_layers(layers, discards, bounds, started_ns, self.own_files, copies)

"""Layers of commands: whether a command has them, where they lie, and what is read from them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from agent_gate.bindings.commit.layer import Bounds, Found, read_layers
from agent_gate.bindings.commit.steps import file_list
from agent_gate.bindings.own_watch import OwnWatch
from agent_gate.bindings.threads import FileThreads
from agent_gate.model.limits import FOREIGN_FILES_LOOKED_AT_MAX
from agent_gate.model.policy import Policy
from agent_gate.model.tool import Json
from agent_gate.model.visible import visible
from agent_gate.policy.guards.path_patterns import compile_patterns
from agent_gate.policy.guards.programs import Reach, Use
from agent_gate.policy.guards.surroundings import Surroundings
from agent_gate.sandbox.choice import Choice, Sandbox
from agent_gate.sandbox.command import Finished
from agent_gate.services.shell.scratch import Scratch, clear_left_behind

IN_LAYERS = frozenset({"judge", "ask"})
"""Values of `writes` with which what a command writes is kept apart until it is judged."""
_FOREIGN = b"Value too large for defined data type"
_MOVED = b"Invalid cross-device link"


def writes_of(policy: Policy, use: Use | None) -> str:
    """What becomes of what a command writes: as the policy says, where it can write at all."""
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

    async def scratch(self, sandbox: Sandbox, writable: Sequence[str], threads: FileThreads) -> Scratch:
        """A new directory for the layers of one command."""
        place = await self._choice.scratch(sandbox, writable)
        if place not in self._cleared:
            self._cleared.add(place)
            await threads.run(partial(clear_left_behind, place))
        return Scratch(place)

    def file_list(self, call_id: str) -> str:
        return file_list(self._notes or tempfile.gettempdir(), call_id)

    def read(self, layers: Iterable[tuple[str, str]], started_ns: int, policy: Policy) -> Found:
        """What a command wrote, under its policy's bounds. May wait for a disk."""
        section = policy.guards.shell_run
        assert section is not None
        links = self._around(policy).links
        patterns = compile_patterns(section.discard_paths, self._working_dir, links, denies=True)

        def discards(path: str) -> bool:
            return any(pattern.matches(path) for pattern in patterns)

        bounds = Bounds(section.max_changes, section.max_changed_bytes)
        return read_layers(layers, discards, bounds, started_ns, self.own_files)


def hint(finished: Finished, writable: Iterable[str]) -> Mapping[str, Json]:
    """What a program's own words do not say: where layers cannot do what a disk can, and the way out."""
    if finished.return_code == 0:
        return {}
    said = finished.stderr + finished.stdout
    if _FOREIGN in said:
        path = next(_foreign(writable, said), None)
        which = f"`{visible(path)}` belongs" if path else "a file belongs"
        text = f"{which} to another user or group, and cannot be changed in a layer: give it to the gate's user"
        return {"hint": f"{text}, or write `writes: direct` under shell.run"}
    if _MOVED in said:
        text = "a directory that was there before cannot be renamed in a layer: copy it and remove the old one"
        return {"hint": f"{text}, or write `writes: direct` under shell.run"}
    return {}


def _foreign(writable: Iterable[str], said: bytes) -> Iterator[str]:
    """Files of others, those that the program named first."""
    own = os.geteuid(), os.getegid()
    found: list[str] = []
    left = FOREIGN_FILES_LOOKED_AT_MAX
    for root in writable:
        for folder, folders, files in os.walk(root):
            for name in (*folders, *files):
                left -= 1
                try:
                    status = os.lstat(f"{folder}/{name}")
                except OSError:
                    continue
                if (status.st_uid, status.st_gid) != own:
                    found.append(f"{folder}/{name}")
            if left < 0:
                break
    return iter(sorted(found, key=lambda path: os.fsencode(os.path.basename(path)) not in said))

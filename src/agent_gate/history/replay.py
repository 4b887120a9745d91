"""Replaying transitions: every recorded change of a project's state computed again, from what was recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import jsonpatch

from agent_gate.history.state import show
from agent_gate.model.codec import canonical, hash_of, restore
from agent_gate.model.entry import Kind
from agent_gate.model.taking_back import taken_back
from agent_gate.model.tool import Json
from agent_gate.ports.reading import EntryFilter, Reader
from agent_gate.ports.tools import NewState, Transition

Find = Callable[[str], Transition | None]


@dataclass(frozen=True, slots=True)
class Difference:
    """A call whose transition, done again, does not lead where the record says."""

    project: str
    seq: int
    call_id: str
    tool: str
    what: str
    recorded: str | None = None
    recomputed: str | None = None
    """Hashes, where there are two to compare."""

    def to_json(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, slots=True)
class NotRecomputed:
    """A call whose transition cannot be done again here; that says nothing against the record."""

    call_id: str
    why: str


Finding: TypeAlias = Difference | NotRecomputed
_Problem: TypeAlias = tuple[str] | tuple[str, str | None, str | None]


def replay_transitions(reader: Reader, project: str, find: Find, run_id: str | None = None) -> list[Finding]:
    """Recompute each pure call that succeeded and compare state and result; `find` gives the transition of a tool.

    Each starts from the state recorded before it, so that one difference does not hide or cause another.
    Calls whose bodies were erased cannot be recomputed and are passed over; their states stay as starting points.
    With `run_id`, the calls of that run alone.
    """
    with reader.one_moment():
        return list(_Replay(reader, project, find).findings(run_id))


class _Replay:
    def __init__(self, reader: Reader, project: str, find: Find) -> None:
        self._reader, self._project, self._find = reader, project, find
        self._states: dict[int, bytes] = {}

    def findings(self, run_id: str | None) -> Iterator[Finding]:
        wanted = EntryFilter(
            project=self._project,
            run_id=run_id,
            kinds=(Kind.SETTLED,),
            status="success",
            # Only a pure call has a state version in its body; inside an argument the key only costs a parse.
            holding='"state_version":',
        )
        for entry in self._reader.entries(wanted):
            fields = restore(entry.body or b"{}")
            if "state_version" in fields:
                found = self._finding(entry.seq, entry.call_id or "", entry.tool or "", fields)
                if found:
                    yield found

    def _finding(self, seq: int, call_id: str, tool: str, fields: Mapping[str, Any]) -> Finding | None:
        args = self._args(seq, call_id, fields)
        if args is None:
            return Difference(self._project, seq, call_id, tool, "its arguments are not recorded")
        if any(is_secret(value) for value in args.values()):
            return NotRecomputed(call_id, "its secret arguments are not recorded")
        transitions = self._reverts(tool, fields) or [found for found in [self._find(tool)] if found]
        if not transitions:
            return NotRecomputed(call_id, f"there is no pure tool `{tool}` here")
        problem = self._problem(transitions, args, fields)
        return Difference(self._project, seq, call_id, tool, *problem) if problem else None

    def _problem(
        self, transitions: list[Transition], args: dict[str, Json], fields: Mapping[str, Any]
    ) -> _Problem | None:
        after = fields["state_version"]
        before = self._state(after - 1 if "state_hash" in fields else after)
        problem = self._differs(transitions[0], args, before, fields)
        if problem and any(self._differs(other, args, before, fields) is None for other in transitions[1:]):
            return None
        return problem

    @staticmethod
    def _differs(
        transition: Transition, args: dict[str, Json], before: bytes, fields: Mapping[str, Any]
    ) -> _Problem | None:
        try:
            new = transition(args, restore(before))
            state_hash = hash_of(new.state)
            output_hash = None if new.data is None else hash_of(new.data)
        except Exception as error:
            return (f"it fails now: {type(error).__name__}: {error}"[:500],)
        recorded = fields.get("state_hash") or hash_of(restore(before))
        if state_hash != recorded:
            return "it leads to another state", recorded, state_hash
        if output_hash != fields.get("output_hash"):
            return "it returns another result", fields.get("output_hash"), output_hash
        return None

    def _args(self, seq: int, call_id: str, fields: Mapping[str, Any]) -> dict[str, Json] | None:
        """A call's first entry holds its arguments."""
        if "args" not in fields:
            first = next(self._reader.entries(EntryFilter(call_id=call_id), limit=1), None)
            fields = restore(first.body) if first and first.body and first.seq < seq else {}
        return fields.get("args")

    def _state(self, version: int) -> bytes:
        if version not in self._states:
            document = canonical(show(self._reader, self._project, version).document)
            if len(self._states) > 1:
                self._states.clear()
            self._states[version] = document
        return self._states[version]

    def _reverts(self, tool: str, fields: Mapping[str, Any]) -> list[Transition]:
        """The reverts rest on earlier states, which binding found and recorded.

        Earlier releases took a change back by another patch, which may lead elsewhere where lists have changed since.
        """
        if tool not in ("state.revert", "gate.revert"):
            return []
        target = restore(self._state(fields["resources"]["to_version"]))
        if tool == "state.revert":
            return [lambda _, __: NewState(target)]
        undone = restore(self._state(fields["resources"]["to_version"] + 1))
        return [
            lambda _, state: NewState(taken_back(target, undone, state)),
            lambda _, state: NewState(jsonpatch.make_patch(undone, target).apply(state)),
        ]


def is_secret(value: Any) -> bool:
    """Tell whether a recorded argument is only the keyed hash of what was given."""
    return isinstance(value, dict) and set(value) == {"$secret"}

"""The revert tools: calls like any other, judged and recorded, that bring back what was before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy

import jsonpatch
import jsonpointer

from agent_gate.model.builtin import GATE_REVERT, STATE_REVERT
from agent_gate.model.call import CallRequest
from agent_gate.model.errors import ToolError
from agent_gate.model.record import outcome_of
from agent_gate.model.tool import Json, ToolDeclaration
from agent_gate.ports import Binding, Hand, Judge, Ledger, NewState, Transition
from agent_gate.toolkit import make_hand


class RevertService:
    name = "revert"
    dependencies: Sequence[str] = ("state",)

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def tools(self) -> Sequence[ToolDeclaration]:
        return (STATE_REVERT, GATE_REVERT)

    def hands(self) -> Sequence[Hand]:
        return [
            make_hand(STATE_REVERT, self.name, bind=self._bind_snapshot, reverts=True),
            make_hand(GATE_REVERT, self.name, bind=self._bind_call, reverts=True),
        ]

    async def start(self) -> None: ...

    async def execute(self, tool_name: str, args: Mapping[str, Json]) -> Json:  # noqa: ARG002 -- the service's shape
        raise ToolError(f"`{tool_name}` runs inside the gate")

    async def health_check(self) -> bool:
        return True

    async def close(self) -> None: ...

    async def _bind_snapshot(self, request: CallRequest, args: Mapping[str, Json], _: Judge) -> Binding:
        snapshot_id = args["snapshot_id"]
        found = await self._ledger.snapshot(snapshot_id)
        if found is None or found[0] != request.project:
            raise ToolError(
                f"project `{request.project}` has no snapshot `{snapshot_id}`",
                code=2002,
                suggestion="see `agent-gate state history`",
            )
        state = found[1]
        return Binding(
            (f"state.revert({snapshot_id})",),
            {"to_version": state.version},
            transition=lambda _, __: NewState(state.document, f"state of version {state.version} again"),
        )

    async def _bind_call(self, request: CallRequest, args: Mapping[str, Json], _: Judge) -> Binding:
        call_id = args["call_id"]
        entries = await self._ledger.entries_of(call_id)
        outcome = outcome_of(entries)
        if outcome is None or entries[0].project != request.project:
            raise ToolError(
                f"project `{request.project}` has no settled call `{call_id}`",
                code=2002,
                suggestion="see `agent-gate audit`",
            )
        if outcome.snapshot_id is None or outcome.state_version is None:
            raise ToolError(
                f"call `{call_id}` changed nothing that can be brought back", code=2002, suggestion="see what it did"
            )
        before = await self._ledger.state_at(request.project, outcome.state_version - 1)
        after = await self._ledger.state_at(request.project, outcome.state_version)
        inner = f"state.revert({before.snapshot_id})" if before.snapshot_id else "state.revert(initial)"
        return Binding(
            (f"gate.revert({call_id})", inner),
            {"call_id": call_id, "to_version": before.version},
            transition=_undo(call_id, before.document, after.document),
        )


def _undo(call_id: str, before: Json, after: Json) -> Transition:
    """Takes back what the call changed and leaves what came later, unless both touched the same place."""

    def undo(_: dict[str, Json], state: Json) -> NewState:
        expected = deepcopy(after)
        for operation in jsonpatch.make_patch(after, before).patch:
            _refuse_drift(operation, state, expected, call_id)
            step = jsonpatch.JsonPatch([operation])
            state, expected = step.apply(state), step.apply(expected, in_place=True)
        return NewState(state, f"undid call {call_id}")

    return undo


def _refuse_drift(operation: Mapping[str, Json], state: Json, expected: Json, call_id: str) -> None:
    """Where one step of the undoing would touch a place, it must hold what the call left there."""
    for path in {operation["path"], operation.get("from", operation["path"])}:
        if _value_at(state, path) != _value_at(expected, path):
            raise ToolError(
                f"`{path or '/'}` has changed since call `{call_id}`",
                suggestion="revert the later call first, or choose a snapshot with state.revert",
            )


_ABSENT = object()


def _value_at(document: Json, path: str) -> object:
    return jsonpointer.resolve_pointer(document, path, _ABSENT)

"""The revert tools: calls like any other, judged and recorded, that bring back what was before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from agent_gate.model.bounds import UNDO_ROW_MAX
from agent_gate.model.call import CallRequest
from agent_gate.model.codec import restore, sha256_hex
from agent_gate.model.entry import Entry
from agent_gate.model.errors import GateError, StorageError, ToolError
from agent_gate.model.outcome import Outcome
from agent_gate.model.project import INITIAL_SNAPSHOT
from agent_gate.model.record import outcome_of, output_blob, undo_blob
from agent_gate.model.taking_back import Drifted, taken_back
from agent_gate.model.tool import Json, ToolDeclaration
from agent_gate.policy.judge import Judge
from agent_gate.policy.state_aliases import aliases_of_change
from agent_gate.ports.ledger import Ledger
from agent_gate.ports.tools import Binding, NewState, Recorded, RegisteredTool, Transition
from agent_gate.toolkit import make_registered_tool
from agent_gate.tools.gate import GATE_REVERT
from agent_gate.tools.state import STATE_REVERT


class RevertService:
    name = "revert"
    dependencies: Sequence[str] = ("state",)

    def __init__(self, ledger: Ledger, find: Callable[[str], RegisteredTool | None] = lambda _: None) -> None:
        """`find` finds a tool by its name, which may know how to undo its calls."""
        self._ledger, self._find = ledger, find

    def tools(self) -> Sequence[ToolDeclaration]:
        return (STATE_REVERT, GATE_REVERT)

    def registered_tools(self) -> Sequence[RegisteredTool]:
        return [
            make_registered_tool(STATE_REVERT, self.name, bind=self._bind_snapshot, reverts=True),
            make_registered_tool(GATE_REVERT, self.name, bind=self._bind_call, reverts=True),
        ]

    async def execute(self, tool_name: str, args: Mapping[str, Json]) -> Json:  # noqa: ARG002 -- the service's shape
        raise ToolError(f"`{tool_name}` runs inside the gate")

    async def _bind_snapshot(self, request: CallRequest, args: Mapping[str, Json], _: Judge) -> Binding:
        snapshot_id = args["snapshot_id"]
        state = await self._ledger.snapshot(request.project, snapshot_id)
        if state is None:
            raise ToolError(
                f"project `{request.project}` has no snapshot `{snapshot_id}`",
                code=2002,
                suggestion="see `agent-gate state history`",
            )
        return Binding(
            (f"state.revert({snapshot_id})",),
            {"to_version": state.version},
            transition=lambda _, __: NewState(state.document, f"state of version {state.version} again"),
            changes=lambda current: aliases_of_change(current, state.document),
        )

    async def _bind_call(self, request: CallRequest, args: Mapping[str, Json], judge: Judge) -> Binding:
        call_id = args["call_id"]
        entries = await self._ledger.entries_of(call_id)
        outcome = outcome_of(entries)
        if outcome is None or entries[0].project != request.project:
            raise ToolError(
                f"project `{request.project}` has no settled call `{call_id}`",
                code=2002,
                suggestion="see `agent-gate audit`",
            )
        if earlier := await self._ledger.undone(request.project, call_id):
            raise GateError.of(earlier.problem)
        tool, recorded = await self._told(call_id, entries, outcome)
        registered = self._find(tool)
        if registered and registered.undo and recorded:
            inner = await registered.undo(recorded, judge)
            signatures = (f"gate.revert({call_id})", *inner.signatures)
            return replace(inner, signatures=signatures, resources={"call_id": call_id, **inner.resources})
        if registered is None and outcome.snapshot_id is None:
            raise ToolError(
                f"call `{call_id}` was one of `{tool}`, which is not a tool here",
                code=2002,
                suggestion="undo it where that tool is; what a service did, with `-c config.yaml`",
            )
        if outcome.snapshot_id is None or outcome.state_version is None:
            raise ToolError(
                f"call `{call_id}` changed nothing that can be brought back", code=2002, suggestion="see what it did"
            )
        before = await self._ledger.state_at(request.project, outcome.state_version - 1)
        after = await self._ledger.state_at(request.project, outcome.state_version)
        snapshot = f"state.revert({before.snapshot_id or INITIAL_SNAPSHOT})"
        return Binding(
            (f"gate.revert({call_id})", snapshot),
            {"call_id": call_id, "to_version": before.version},
            transition=_undo(call_id, before.document, after.document),
            aliases=aliases_of_change(after.document, before.document),
        )

    async def _told(self, call_id: str, entries: Sequence[Entry], outcome: Outcome) -> tuple[str, Recorded | None]:
        """The tool whose doing a call was, and the call as the ledger tells it.

        Of an undoing that is the tool of what was undone, and that call with it; one that failed undid nothing.
        """
        row = [(call_id, entries, outcome)]
        while row[-1][1][0].tool == GATE_REVERT.name and row[-1][2].ok and row[-1][2].snapshot_id is None:
            target = _target(row[-1][1])
            found = await self._ledger.entries_of(target) if target and len(row) < UNDO_ROW_MAX else ()
            reached = outcome_of(found)
            if target is None or reached is None:
                return row[-1][1][0].tool or "", None
            row.append((target, found, reached))
        tool, recorded = row[-1][1][0].tool or "", None
        for told in reversed(row):
            recorded = await self._recorded(*told, recorded)
            if recorded is None:
                return tool, None
        return tool, recorded

    async def _recorded(
        self, call_id: str, entries: Sequence[Entry], outcome: Outcome, undoes: Recorded | None
    ) -> Recorded | None:
        """None where the call was not performed, or what it was has been erased."""
        bodies = [(entry.kind, restore(entry.body)) for entry in entries if entry.body is not None]
        performing = next((body for kind, body in bodies if kind == "performing"), None)
        args = next((body["args"] for _, body in bodies if "args" in body), None)
        if performing is None or args is None:
            return None
        kept = await self._ledger.blob(undo_blob(call_id))
        committing = next((body for kind, body in bodies if kind == "committing"), performing)
        if committing.get("kept_hash") != (None if kept is None else sha256_hex(kept)):
            raise StorageError(f"what was kept of call `{call_id}` is not what was recorded", code=5004)
        large = await self._ledger.blob(output_blob(call_id)) if outcome.data is None else None
        if large is not None:
            if sha256_hex(large) not in [body.get("output_hash") for _, body in bodies]:
                raise StorageError(f"the result of call `{call_id}` is not what was recorded", code=5004)
            outcome = replace(outcome, data=restore(large))
        found = performing["facts"].get("found", {})
        return Recorded(call_id, args, performing.get("resources", {}), found, outcome, kept, undoes)


def _target(entries: Sequence[Entry]) -> str | None:
    """The call that an undoing was about."""
    bodies = (restore(entry.body) for entry in entries if entry.body is not None)
    return next((body["args"]["call_id"] for body in bodies if "args" in body), None)


def _undo(call_id: str, before: Json, after: Json) -> Transition:
    """Takes back what the call changed and leaves what came later, unless both touched the same place."""

    def undo(_: dict[str, Json], state: Json) -> NewState:
        try:
            return NewState(taken_back(before, after, state), f"undid call {call_id}")
        except Drifted as drifted:
            raise ToolError(
                f"`{drifted.path or '/'}` has changed since call `{call_id}`",
                suggestion="revert the later call first, or choose a snapshot with state.revert",
            ) from None

    return undo

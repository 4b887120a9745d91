"""Reads of the gate's own record by agents: earlier states, and leave to see what their own calls came to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent_gate.model.bounds import PAGE_LIMIT
from agent_gate.model.call import BoundCall
from agent_gate.model.errors import ToolError
from agent_gate.model.tool import Json, ToolDeclaration
from agent_gate.ports.reading import PastStates
from agent_gate.ports.tools import RegisteredTool
from agent_gate.toolkit import make_registered_tool
from agent_gate.tools.gate import GATE_READ
from agent_gate.tools.state import PAST_STATE_TOOLS, STATE_AT, STATE_DIFF, STATE_HISTORY


class RecordService:
    name = "record"
    dependencies: Sequence[str] = ("state",)

    def __init__(self, past: PastStates) -> None:
        self._past = past

    def tools(self) -> Sequence[ToolDeclaration]:
        return (*PAST_STATE_TOOLS, GATE_READ)

    def registered_tools(self) -> Sequence[RegisteredTool]:
        ways = {
            STATE_AT.name: self._state_at,
            STATE_HISTORY.name: self._state_history,
            STATE_DIFF.name: self._state_diff,
            GATE_READ.name: _give_leave,
        }
        return [make_registered_tool(tool, self.name, act=ways[tool.name]) for tool in self.tools()]

    async def execute(self, tool_name: str, args: Mapping[str, Json]) -> Json:  # noqa: ARG002 -- the service's shape
        raise ToolError(f"`{tool_name}` runs inside the gate")

    async def _state_at(self, call: BoundCall) -> Json:
        version, snapshot_id = call.args.get("version"), call.args.get("snapshot_id")
        return await self._past.at(call.request.project, version, snapshot_id)

    async def _state_history(self, call: BoundCall) -> Json:
        return await self._past.history(call.request.project, call.args.get("limit", PAGE_LIMIT))

    async def _state_diff(self, call: BoundCall) -> Json:
        return await self._past.diff(call.request.project, call.args.get("from", 0), call.args.get("to"))


async def _give_leave(_: BoundCall) -> Json:
    """The door that asked for leave reads then: the record does not hold copies of itself."""

"""The service `approvals`: the name that others depend on for being asked about; the asking itself is the gate's.

A tool of a service is judged and held by the stages of the gate like any other, so this service has nothing to start:
that it is here says that whoever depends on it runs inside a gate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent_gate.model.errors import ToolError
from agent_gate.model.tool import Json, ToolDeclaration


class ApprovalsService:
    name = "approvals"

    def tools(self) -> Sequence[ToolDeclaration]:
        return ()

    async def execute(self, tool_name: str, args: Mapping[str, Json]) -> Json:  # noqa: ARG002 -- the service's shape
        raise ToolError(f"`approvals` has no tool `{tool_name}`", code=2001)

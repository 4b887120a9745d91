"""Tools as an MCP client sees them in a list."""

from __future__ import annotations

from mcp_types import Tool, ToolAnnotations

from agent_gate.doors.mcp.names import client_name
from agent_gate.model.tool import Effect, Risk, ToolDeclaration

GATE_RESULT = "gate_result"
"""The tool that the door itself offers: what became of a call."""

RESULT_TOOL = Tool(
    name=GATE_RESULT,
    title="Result of an earlier call",
    description="What became of an earlier call of yours: its outcome, or that a person is still asked about it",
    input_schema={
        "type": "object",
        "properties": {"call_id": {"type": "string", "description": "as an earlier answer told it"}},
        "required": ["call_id"],
        "additionalProperties": False,
    },
    annotations=ToolAnnotations(
        read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
    ),
)


def listed(tool: ToolDeclaration) -> Tool:
    return Tool(
        name=client_name(tool.name),
        title=tool.name,
        description=tool.description or tool.name,
        input_schema={"type": "object", **tool.input_schema},
        annotations=_annotations(tool),
    )


def _annotations(tool: ToolDeclaration) -> ToolAnnotations:
    """Hints for the client's own caution; the gate judges by its policy and by nothing that a client makes of them."""
    reads = tool.effect is Effect.READ
    return ToolAnnotations(
        read_only_hint=reads,
        destructive_hint=tool.effect is Effect.WRITE and tool.risk is not Risk.LOW,
        idempotent_hint=reads,
        open_world_hint=tool.effect is not Effect.NONE and not tool.closed_world,
    )

"""What authors of tools use: functions with a decorator, or classes, become something the gate can hold."""

from __future__ import annotations

from agent_gate.toolkit.classes import Tool, ToolContext, ToolOutput
from agent_gate.toolkit.decorators import REGISTERED, tool, transition
from agent_gate.toolkit.offered import registered_tool
from agent_gate.toolkit.registered import make_registered_tool
from agent_gate.toolkit.schemas import schema_of
from agent_gate.toolkit.threads import BlockingPool

__all__ = [
    "REGISTERED",
    "BlockingPool",
    "Tool",
    "ToolContext",
    "ToolOutput",
    "make_registered_tool",
    "registered_tool",
    "schema_of",
    "tool",
    "transition",
]

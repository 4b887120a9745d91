"""What authors of tools use: functions with a decorator, or classes, become something the gate can hold."""

from __future__ import annotations

from agent_gate.ports import RegisteredTool
from agent_gate.toolkit.classes import Tool, ToolContext, ToolOutput, registered_class
from agent_gate.toolkit.decorators import REGISTERED, registered_function, tool, transition
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


def registered_tool(offered: object, working_dir: str = ".") -> RegisteredTool:
    """The hand of a decorated function, or of a tool that is an object and gets to know its working directory."""
    if isinstance(offered, Tool):
        return registered_class(offered, working_dir)
    if isinstance(offered, type) and issubclass(offered, Tool):
        raise TypeError(f"{offered.__name__} is a class of tools: give one of them, `{offered.__name__}()`")
    registered = registered_function(offered)
    if registered is None:
        raise TypeError(f"{offered!r} is not decorated with @tool or @transition, and no Tool")
    return registered

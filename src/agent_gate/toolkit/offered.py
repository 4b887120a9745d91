"""Anything that an author may offer as a tool, as the gate holds it."""

from __future__ import annotations

from agent_gate.ports.tools import RegisteredTool
from agent_gate.toolkit.classes import Tool, registered_class
from agent_gate.toolkit.decorators import registered_function


def registered_tool(offered: object, working_dir: str = ".") -> RegisteredTool:
    """Register a decorated function, or a tool that is an object and gets to know its working directory."""
    if isinstance(offered, RegisteredTool):
        return offered
    if isinstance(offered, Tool):
        return registered_class(offered, working_dir)
    if isinstance(offered, type) and issubclass(offered, Tool):
        raise TypeError(f"{offered.__name__} is a class of tools: give one of them, `{offered.__name__}()`")
    registered = registered_function(offered)
    if registered is None:
        raise TypeError(f"{offered!r} is not decorated with @tool or @transition, and no Tool")
    return registered

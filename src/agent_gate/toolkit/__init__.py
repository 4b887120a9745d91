"""What authors of tools use: functions with a decorator, or classes, become something the gate can hold."""

from __future__ import annotations

from agent_gate.ports import Hand
from agent_gate.toolkit.classes import Tool, ToolContext, ToolOutput, hand_of_tool
from agent_gate.toolkit.decorators import HANDS, hand_of_function, tool, transition
from agent_gate.toolkit.hands import make_hand
from agent_gate.toolkit.schemas import schema_of
from agent_gate.toolkit.threads import BlockingPool

__all__ = [
    "HANDS",
    "BlockingPool",
    "Tool",
    "ToolContext",
    "ToolOutput",
    "hand_of",
    "make_hand",
    "schema_of",
    "tool",
    "transition",
]


def hand_of(offered: object, working_dir: str = ".") -> Hand:
    """The hand of a decorated function, or of a tool that is an object and gets to know its working directory."""
    if isinstance(offered, Tool):
        return hand_of_tool(offered, working_dir)
    if isinstance(offered, type) and issubclass(offered, Tool):
        raise TypeError(f"{offered.__name__} is a class of tools: give one of them, `{offered.__name__}()`")
    hand = hand_of_function(offered)
    if hand is None:
        raise TypeError(f"{offered!r} is not decorated with @tool or @transition, and no Tool")
    return hand

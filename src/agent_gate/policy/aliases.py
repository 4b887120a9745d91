"""Alias signatures: other names of what a call would do, so that a deny holds for every spelling of it."""

from __future__ import annotations

from collections.abc import Mapping

from agent_gate.model.errors import ToolError
from agent_gate.model.tool import Json, ToolDeclaration


def aliases_of(tool: ToolDeclaration, args: Mapping[str, Json], state: Json = None) -> tuple[str, ...]:
    """Those that a tool brings for a call that would act on `state`; most have none."""
    if tool.aliases is None:
        return ()
    try:
        return tuple(dict.fromkeys(tool.aliases(args, state)))
    except ValueError as error:
        raise ToolError(str(error), code=2002, suggestion=getattr(error, "suggestion", "")) from None

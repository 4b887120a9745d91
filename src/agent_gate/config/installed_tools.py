"""Tools of installed packages, for judging where no gate is open."""

from __future__ import annotations

from collections.abc import Mapping

from agent_gate.model.tool import ToolDeclaration
from agent_gate.system.entry_points import SERVICES, offers


def installed_tools() -> Mapping[str, ToolDeclaration]:
    """Those that packages offer, by name; the toolkit is loaded only where there are such packages."""
    if not offers(SERVICES):
        return {}
    from agent_gate.toolkit import services  # noqa: PLC0415 -- 35 ms (asyncio and what makes tools of functions)

    return services.installed_tools()

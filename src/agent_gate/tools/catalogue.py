"""The tools that come with the gate, so that their calls can be judged where nothing is running or connected."""

from __future__ import annotations

from collections.abc import Mapping

from agent_gate.model.tool import ToolDeclaration
from agent_gate.tools.files import FS_READ, FS_WRITE
from agent_gate.tools.gate import GATE_READ, GATE_REVERT
from agent_gate.tools.home_assistant.declarations import HOME_ASSISTANT_TOOLS
from agent_gate.tools.http import HTTP_GET
from agent_gate.tools.shell import SHELL_RUN
from agent_gate.tools.state import PAST_STATE_TOOLS, STATE_REVERT, STATE_TOOLS

BUILTIN: Mapping[str, ToolDeclaration] = {
    tool.name: tool
    for tool in (
        *STATE_TOOLS,
        *PAST_STATE_TOOLS,
        STATE_REVERT,
        GATE_READ,
        GATE_REVERT,
        FS_READ,
        FS_WRITE,
        HTTP_GET,
        SHELL_RUN,
        *HOME_ASSISTANT_TOOLS,
    )
}
CONFIGURED: Mapping[str, str] = {tool.name: "homeassistant" for tool in HOME_ASSISTANT_TOOLS}
"""Tools that are only there where a section under `services:` of the configuration says so, by its name."""

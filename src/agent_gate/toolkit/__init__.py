"""The kit for authors of tools: functions with a decorator, or classes, become something the gate can hold."""

from __future__ import annotations

from agent_gate.model.service_tables import AddColumn, Column, ServiceTables, Table
from agent_gate.model.setting import Setting
from agent_gate.model.tool import GuardedBy, Reach, Section
from agent_gate.policy.encoding import encoded_text
from agent_gate.policy.guards import Guard, GuardContext
from agent_gate.policy.layers import allow, ask, deny, nothing
from agent_gate.ports.tools import WithRows
from agent_gate.toolkit.classes import Tool, ToolContext, ToolOutput
from agent_gate.toolkit.decorators import REGISTERED, current_call, tool, transition
from agent_gate.toolkit.offered import registered_tool
from agent_gate.toolkit.registered import make_registered_tool
from agent_gate.toolkit.schemas import schema_of
from agent_gate.toolkit.tables import ServiceRows
from agent_gate.toolkit.threads import BlockingPool

__all__ = [
    "REGISTERED",
    "AddColumn",
    "BlockingPool",
    "Column",
    "Guard",
    "GuardContext",
    "GuardedBy",
    "Reach",
    "Section",
    "ServiceRows",
    "ServiceTables",
    "Setting",
    "Table",
    "Tool",
    "ToolContext",
    "ToolOutput",
    "WithRows",
    "allow",
    "ask",
    "current_call",
    "deny",
    "encoded_text",
    "make_registered_tool",
    "nothing",
    "registered_tool",
    "schema_of",
    "tool",
    "transition",
]

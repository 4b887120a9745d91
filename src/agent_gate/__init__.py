"""agent-gate: the one gate between AI agents and everything they can touch."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from agent_gate.app import open_gate as open_gate
    from agent_gate.compat import AuditEntry as AuditEntry
    from agent_gate.compat import PendingApproval as PendingApproval
    from agent_gate.compat import ToolRequest as ToolRequest
    from agent_gate.compat import ToolResult as ToolResult
    from agent_gate.config import Config as Config
    from agent_gate.config import load_config as load_config
    from agent_gate.config import load_permissions as load_permissions
    from agent_gate.config import load_plan as load_plan
    from agent_gate.config import load_policy as load_policy
    from agent_gate.gate.gate import Gate as Gate
    from agent_gate.gate.plans import run_plan as run_plan
    from agent_gate.gate.recorded_runs import replay_run as replay_run
    from agent_gate.gate.recorded_runs import verify_run as verify_run
    from agent_gate.model.approval import Approver as Approver
    from agent_gate.model.call import Agent as Agent
    from agent_gate.model.errors import ConfigError as ConfigError
    from agent_gate.model.errors import GateError as GateError
    from agent_gate.model.errors import PlanValidationError as PlanValidationError
    from agent_gate.model.errors import PolicyDeniedError as PolicyDeniedError
    from agent_gate.model.errors import ReplayError as ReplayError
    from agent_gate.model.errors import StorageError as StorageError
    from agent_gate.model.errors import ToolError as ToolError
    from agent_gate.model.outcome import Outcome as Outcome
    from agent_gate.model.permission import PermissionRule as PermissionRule
    from agent_gate.model.permission import Permissions as Permissions
    from agent_gate.model.verdict import Decision as Decision
    from agent_gate.toolkit import Tool as Tool
    from agent_gate.toolkit import ToolContext as ToolContext
    from agent_gate.toolkit import ToolOutput as ToolOutput
    from agent_gate.toolkit import tool as tool
    from agent_gate.toolkit import transition as transition
    from agent_gate.tools.by_name import build_signature as build_signature
    from agent_gate.tools.by_name import validate_args as validate_args
    from agent_gate.tools.engine import PermissionEngine as PermissionEngine

_HOMES = {
    "agent_gate.app": ("open_gate",),
    "agent_gate.compat": ("AuditEntry", "PendingApproval", "ToolRequest", "ToolResult"),
    "agent_gate.config": ("Config", "load_config", "load_permissions", "load_plan", "load_policy"),
    "agent_gate.model.approval": ("Approver",),
    "agent_gate.model.call": ("Agent",),
    "agent_gate.model.errors": (
        "ConfigError",
        "GateError",
        "PlanValidationError",
        "PolicyDeniedError",
        "ReplayError",
        "StorageError",
        "ToolError",
    ),
    "agent_gate.model.outcome": ("Outcome",),
    "agent_gate.model.permission": ("PermissionRule", "Permissions"),
    "agent_gate.model.verdict": ("Decision",),
    "agent_gate.gate.plans": ("run_plan",),
    "agent_gate.tools.engine": ("PermissionEngine",),
    "agent_gate.tools.by_name": ("build_signature", "validate_args"),
    "agent_gate.gate.recorded_runs": ("replay_run", "verify_run"),
    "agent_gate.gate.gate": ("Gate",),
    "agent_gate.toolkit": ("Tool", "ToolContext", "ToolOutput", "tool", "transition"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = ["__version__", *sorted(_HOME_OF)]  # noqa: PLE0604 -- every name is a text


def __getattr__(name: str) -> object:
    """Each name is imported when it is first used, so that a command loads only what it needs."""
    module = _HOME_OF.get(name)
    if module is None:
        raise AttributeError(f"module 'agent_gate' has no attribute {name!r}")
    return getattr(import_module(module), name)

"""Every command with the module that holds it, so that a start imports only the one that is asked for."""

from __future__ import annotations

from collections.abc import Mapping

SECTIONS: Mapping[str, tuple[str, ...]] = {
    "Work": ("init", "run", "replay", "report", "list-runs", "show-run", "revert", "demo"),
    "Policy": ("check", "policy"),
    "Record": ("audit", "verify", "export", "state", "project", "db"),
    "Server": (
        "serve",
        "request",
        "tools",
        "pending",
        "approve",
        "deny",
        "grants",
        "pause",
        "resume",
        "mcp",
        "policy-agent",
        "owner",
        "doctor",
    ),
}

COMMANDS: Mapping[str, str] = {
    name: f"agent_gate.doors.cli.{name.replace('-', '_')}" for names in SECTIONS.values() for name in names
}

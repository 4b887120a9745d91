"""Policy files: the text as it is through the reader of files, then its fields, renamed to ours, as a policy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agent_gate.config import ConfigError, load_policy, parse_yaml
from agent_gate.config.yaml_build import Bounds
from tests.attacks.cases import Case

CHECKS: frozenset[str] = frozenset()

_SECTIONS = {
    "fs.read": {"allow_paths": "allow_paths", "deny_paths": "deny_paths", "max_read_bytes": "max_size_bytes"},
    "http.get": {
        "allow_domains": "allow_domains",
        "allow_schemes": "allow_schemes",
        "allow_ports": "allow_ports",
        "block_private": "deny_private_ips",
        "max_redirects": "max_redirects",
    },
    "shell.run": {
        "allow_executables": "allow_executables",
        "trusted_dirs": "trusted_dirs",
        "deny_tokens": "deny_tokens",
        "timeout_s": "timeout_seconds",
        "max_output_bytes": "max_output_bytes",
    },
}
_ALWAYS_SO = frozenset(
    {"symlinks", "hardlinks", "wildcard", "revalidate_redirects", "exec_mode", "arg_guard", "rule_order", "signature"}
)
"""Fields for which our policy has no other value than the one that the cases name."""


def run(case: Case, root: Path) -> str:
    limits = case.policy
    ours = Bounds()
    bounds = Bounds(
        min(limits.get("max_bytes", ours.bytes_max), ours.bytes_max),
        min(limits.get("max_depth", ours.depth_max), ours.depth_max),
        min(limits.get("max_nodes", ours.nodes_max), ours.nodes_max),
        min(limits.get("max_nodes", ours.alias_nodes_max), ours.alias_nodes_max),
    )
    try:
        value = parse_yaml(case.args["yaml"], "policy.yaml", bounds).value
        if not isinstance(value, dict):
            return "error"
        load_policy(_ours(value))
    except ConfigError:
        return "error"
    return "allow"


def _ours(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields in the structure of our policy; what is not known stays where it is, and is refused there."""
    tools: dict[str, Any] = {}
    policy: dict[str, Any] = {}
    for key, value in fields.items():
        section = next((name for name, keys in _SECTIONS.items() if key in keys), None)
        if section is not None:
            tools.setdefault(section, {})[_SECTIONS[section][key]] = value
        elif key == "default":
            policy["defaults"] = [{"pattern": "*", "action": value}]
        elif key not in _ALWAYS_SO or not isinstance(value, str | bool):
            policy[key] = value
    return {**policy, **({"tools": tools} if tools else {})}

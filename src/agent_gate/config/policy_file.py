"""Loads policy.yaml, or a bare permissions.yaml: nothing doubtful in it becomes a rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from agent_gate.config.policy_checks import check_meaning
from agent_gate.config.problems import check_schema, with_environment
from agent_gate.config.windows import window
from agent_gate.config.yaml_file import Document, PathLike, load_yaml
from agent_gate.model.codec import CodecError, normalise
from agent_gate.model.errors import ConfigError
from agent_gate.model.limits import POLICY_BYTES_MAX, YAML_DEPTH_MAX
from agent_gate.model.permission import PermissionRule, Permissions
from agent_gate.model.policy import (
    DEFAULT_ROLES,
    ApprovalRule,
    CommandGuard,
    Declare,
    Guards,
    PathGuard,
    Policy,
    ProjectLimits,
    Role,
    UrlGuard,
)
from agent_gate.model.tool import Effect, Json, Mode, Risk

T = TypeVar("T")


def load_permissions(path: PathLike = "permissions.yaml") -> Permissions:
    """The rules in a file; its other fields, if it has any, are validated all the same."""
    return load_policy(path).permissions


def load_policy(source: PathLike | Mapping[str, Json] = "policy.yaml") -> Policy:
    """The policy in a file or a mapping; ConfigError holds every problem at once."""
    return policy_from(source) if isinstance(source, Mapping) else _policy_of(load_yaml(source, POLICY_BYTES_MAX))


def policy_from(mapping: Mapping[str, Json]) -> Policy:
    """The policy that a mapping of the same fields says."""
    try:
        value, _ = normalise(mapping, bytes_max=POLICY_BYTES_MAX, depth_max=YAML_DEPTH_MAX)
    except CodecError as error:
        raise ConfigError(f"policy: {error}") from None
    return _policy_of(Document("policy", value))


def _policy_of(document: Document) -> Policy:
    document, problems = with_environment(document, "policy")
    if check_schema(document, "policy", problems):
        check_meaning(document.value, problems)
    problems.raise_any()
    return _policy(document.value)


def _policy(fields: dict[str, Any]) -> Policy:
    defaults = Policy()
    return Policy(
        permissions=Permissions(*([_rule(item) for item in fields.get(key, ())] for key in ("defaults", "rules"))),
        timezone=fields.get("timezone", defaults.timezone),
        deny_by_default="boundary" in fields,
        guards=_guards(fields.get("tools", {})),
        protected_paths=tuple(fields.get("protected_paths", ())),
        declare=tuple(_declare(pattern, item) for pattern, item in fields.get("declare", {}).items()),
        max_calls_per_tool=_maybe(int, fields.get("max_calls_per_tool")),
        global_timeout_seconds=fields.get("global_timeout_seconds"),
        roles=_roles(fields.get("roles", {})),
        limits=_limits(fields.get("limits", {})),
        approvals=tuple(_approval(item) for item in fields.get("approvals", ())),
        approvals_at_terminal=fields.get("approvals_at_terminal", False),
        cooldown_seconds=fields.get("cooldown_seconds", 0),
        windows=tuple(window(item) for item in fields.get("windows", {}).get("allowed", ())),
        source=fields,
    )


def _maybe(kind: Callable[[Any], T], value: Json) -> T | None:
    return None if value is None else kind(value)


def _rule(fields: dict[str, Any]) -> PermissionRule:
    return PermissionRule(**fields)


def _guards(tools: dict[str, dict[str, Any]]) -> Guards:
    def section(name: str, kind: Callable[..., T]) -> T | None:
        return kind(**{key: _field(key, value) for key, value in tools[name].items()}) if name in tools else None

    kinds: Mapping[str, Callable[..., Any]] = {
        "fs.read": PathGuard,
        "fs.write": PathGuard,
        "http.get": UrlGuard,
        "shell.run": CommandGuard,
    }
    return Guards({name: section(name, kind) for name, kind in kinds.items() if name in tools})


def _field(key: str, value: Json) -> Json:
    if isinstance(value, list):
        return tuple(int(item) if key == "allow_ports" else item for item in value)
    return int(value) if key.startswith("max_") else value


def _declare(pattern: str, fields: dict[str, Any]) -> Declare:
    return Declare(
        pattern,
        effect=_maybe(Effect, fields.get("effect")),
        risk=_maybe(Risk, fields.get("risk")),
        cost=fields.get("cost"),
        required_roles=_maybe(tuple, fields.get("required_roles")),
        confirmation_required=fields.get("confirmation_required"),
        preconditions=_maybe(tuple, fields.get("preconditions")),
    )


def _roles(given: dict[str, dict[str, Any]]) -> Mapping[str, Role]:
    roles = dict(DEFAULT_ROLES)
    for name, fields in given.items():
        # A default role that is only given more risk keeps its effects: a viewer stays a viewer.
        role = roles.get(name, Role(Risk.LOW))
        changed: dict[str, Any] = {}
        if "max_risk" in fields:
            changed["max_risk"] = Risk(fields["max_risk"])
        if "effects" in fields:
            changed["effects"] = tuple(map(Effect, fields["effects"]))
        roles[name] = replace(role, **changed)
    return roles


def _limits(fields: dict[str, Any]) -> ProjectLimits:
    rate = fields.get("rate", {})
    return ProjectLimits(
        rate_per_minute=_maybe(int, rate.get("per_minute")),
        rate_per_hour=_maybe(int, rate.get("per_hour")),
        budget_daily=fields.get("budget", {}).get("daily"),
        steps={Mode(mode): int(count) for mode, count in fields.get("steps", {}).items()},
    )


def _approval(fields: dict[str, Any]) -> ApprovalRule:
    return ApprovalRule(
        min_cost=fields.get("min_cost"),
        risk=_maybe(Risk, fields.get("risk")),
        unless_role=fields.get("unless_role", ""),
        approver_role=fields.get("approver_role", ""),
        approvers_required=int(fields.get("approvers_required", 1)),
    )

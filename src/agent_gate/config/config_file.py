"""Loads config.yaml: read, replace variables, validate in full, and only then build typed settings."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from agent_gate.config.config_checks import check_meaning, refuse_what_is_not_here
from agent_gate.config.problems import Problems, check_schema, with_environment
from agent_gate.config.settings import (
    AgentConfig,
    ApproverConfig,
    ChainPolicyConfig,
    Config,
    GatewayConfig,
    HomeApproverConfig,
    HomeAssistantConfig,
    MessengerConfig,
    PolicyAgentConfig,
    ProjectConfig,
    RateLimitConfig,
    RouteConfig,
    ServicesConfig,
    StorageConfig,
    TelegramConfig,
    TLSConfig,
)
from agent_gate.config.yaml_file import PathLike, load_yaml
from agent_gate.model.tool import Json, Mode

_NUMBERS = (
    ("gateway", "port"),
    ("messenger", "telegram", "chat_id"),
    ("messenger", "telegram", "allowed_users", "*"),
    ("approvers", "*", "telegram_user_id"),
)
"""Fields that may be text, because the environment has nothing else."""
Check: TypeAlias = Callable[[Json, Problems], None]
"""Adds what is wrong with a file beyond what can be known here."""

_DIGITS = re.compile(r"-?[0-9]{1,16}\Z", re.ASCII)


def load_config(path: PathLike = "config.yaml", *, for_agents: bool = True, check: Check | None = None) -> Config:
    """The settings in a file; ConfigError holds every problem at once.

    Where no agents are served over a network, as by `run`, `mcp` or a policy agent alone, `gateway` and `agent` may be
    absent. `check` looks besides at what only those know who use it: the steps of chains.
    """
    document, problems = with_environment(load_yaml(path), "config")
    if not for_agents and isinstance(document.value, dict):
        document.value.setdefault("gateway", {"host": "127.0.0.1", "port": 1})
    for steps in _NUMBERS:
        _coerce(document.value, steps)
    refuse_what_is_not_here(document.value, problems)
    if check_schema(document, "config", problems):
        check_meaning(document.value, problems, for_agents=for_agents)
        if check is not None:
            check(document.value, problems)
    problems.raise_any()
    free = ("projects", "chains", "policies")
    return _config({key: item if key in free else _whole(item) for key, item in document.value.items()})


def _coerce(value: Json, steps: tuple[str, ...]) -> None:
    """Turns text of digits at the named place into a number, in place; anything else is left to the schema."""
    step, *rest = steps
    if step == "*":
        keys: list[Any] = list(range(len(value))) if isinstance(value, list) else []
    else:
        keys = [step] if isinstance(value, dict) and step in value else []
    for key in keys:
        if rest:
            _coerce(value[key], tuple(rest))
        elif isinstance(value[key], str) and _DIGITS.match(value[key]):
            value[key] = int(value[key])


def _whole(value: Json) -> Json:
    """Integral floats as integers: to JSON Schema `8443.0` is an integer, to a socket it is not."""
    if isinstance(value, dict):
        return {key: _whole(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_whole(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _config(fields: dict[str, Any]) -> Config:
    agent = AgentConfig(**fields["agent"]) if "agent" in fields else None
    named = {key: fields[key] for key in ("approval_timeout",) if key in fields}
    return Config(
        gateway=_gateway(fields["gateway"]),
        agent=agent,
        messenger=_messenger(fields["messenger"]) if "messenger" in fields else None,
        services=_services(fields.get("services", {})),
        storage=StorageConfig(**fields["storage"]) if "storage" in fields else StorageConfig(),
        rate_limit=RateLimitConfig(**fields.get("rate_limit", {})),
        agents=(agent,) if agent else tuple(map(_agent, fields.get("agents", ()))),
        approvers=tuple(ApproverConfig(**_tuples(item)) for item in fields.get("approvers", ())),
        projects={
            "default": ProjectConfig(),
            **{name: ProjectConfig(**item) for name, item in fields.get("projects", {}).items()},
        },
        policy_agent=_policy_agent(fields["policy_agent"]) if "policy_agent" in fields else None,
        chains={
            name: tuple(ChainPolicyConfig(**item) for item in chain) for name, chain in fields.get("chains", {}).items()
        },
        policies=fields.get("policies", {}),
        **named,
    )


def _tuples(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()}


def _gateway(fields: dict[str, Any]) -> GatewayConfig:
    tls = TLSConfig(**fields["tls"]) if "tls" in fields else None
    return GatewayConfig(fields["host"], fields["port"], tls)


def _agent(fields: dict[str, Any]) -> AgentConfig:
    given = _tuples(fields)
    if "mode" in given:
        given["mode"] = Mode(given["mode"])
    return AgentConfig(**given)


def _messenger(fields: dict[str, Any]) -> MessengerConfig:
    return MessengerConfig(fields["type"], TelegramConfig(**fields["telegram"]))


def _services(fields: dict[str, Any]) -> ServicesConfig:
    return ServicesConfig(_home(fields["homeassistant"]) if "homeassistant" in fields else None)


def _home(fields: dict[str, Any]) -> HomeAssistantConfig:
    approvals = tuple(HomeApproverConfig(**item) for item in fields.get("approvals", ()))
    return HomeAssistantConfig(**{**fields, "approvals": approvals})


def _policy_agent(fields: dict[str, Any]) -> PolicyAgentConfig:
    routes = tuple(RouteConfig(**item) for item in fields.get("routes", ()))
    return PolicyAgentConfig(**{**_tuples(fields), "routes": routes})

"""Files that people write, as typed settings: read, checked in full, and never half taken."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent_gate.config.config_file import load_config
    from agent_gate.config.environment import substitute_env_vars
    from agent_gate.config.plan_file import load_plan
    from agent_gate.config.policy_file import load_permissions, load_policy, policy_from
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
        WebhookConfig,
    )
    from agent_gate.config.yaml_file import Document, load_yaml, parse_yaml
    from agent_gate.model.errors import ConfigError

__all__ = [
    "AgentConfig",
    "ApproverConfig",
    "ChainPolicyConfig",
    "Config",
    "ConfigError",
    "Document",
    "GatewayConfig",
    "HomeApproverConfig",
    "HomeAssistantConfig",
    "MessengerConfig",
    "PolicyAgentConfig",
    "ProjectConfig",
    "RateLimitConfig",
    "RouteConfig",
    "ServicesConfig",
    "StorageConfig",
    "TLSConfig",
    "TelegramConfig",
    "WebhookConfig",
    "load_config",
    "load_permissions",
    "load_plan",
    "load_policy",
    "load_yaml",
    "parse_yaml",
    "policy_from",
    "substitute_env_vars",
]

_MODULES = {
    "ConfigError": "agent_gate.model.errors",
    "Document": "agent_gate.config.yaml_file",
    "load_config": "agent_gate.config.config_file",
    "load_permissions": "agent_gate.config.policy_file",
    "load_plan": "agent_gate.config.plan_file",
    "load_policy": "agent_gate.config.policy_file",
    "load_yaml": "agent_gate.config.yaml_file",
    "parse_yaml": "agent_gate.config.yaml_file",
    "policy_from": "agent_gate.config.policy_file",
    "substitute_env_vars": "agent_gate.config.environment",
}


def __getattr__(name: str) -> object:
    """Each name from its module when first asked for: a `check` needs no settings, whose classes take 10 ms."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULES.get(name, "agent_gate.config.settings")), name)
    globals()[name] = value
    return value

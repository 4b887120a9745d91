"""Files that people write, as typed settings: read, checked in full, and never half taken."""

from agent_gate.config.config_file import load_config
from agent_gate.config.environment import substitute_env_vars
from agent_gate.config.plan_file import load_plan
from agent_gate.config.policy_file import load_permissions, load_policy, policy_from
from agent_gate.config.settings import (
    AgentConfig,
    AnchorConfig,
    ApproverConfig,
    ChainPolicyConfig,
    Config,
    GatewayConfig,
    HomeAssistantConfig,
    McpServerConfig,
    MessengerConfig,
    PolicyAgentConfig,
    ProjectConfig,
    RateLimitConfig,
    ServicesConfig,
    StorageConfig,
    TelegramConfig,
    TLSConfig,
)
from agent_gate.config.yaml_file import Document, load_yaml, parse_yaml
from agent_gate.model.errors import ConfigError

__all__ = [
    "AgentConfig",
    "AnchorConfig",
    "ApproverConfig",
    "ChainPolicyConfig",
    "Config",
    "ConfigError",
    "Document",
    "GatewayConfig",
    "HomeAssistantConfig",
    "McpServerConfig",
    "MessengerConfig",
    "PolicyAgentConfig",
    "ProjectConfig",
    "RateLimitConfig",
    "ServicesConfig",
    "StorageConfig",
    "TLSConfig",
    "TelegramConfig",
    "load_config",
    "load_permissions",
    "load_plan",
    "load_policy",
    "load_yaml",
    "parse_yaml",
    "policy_from",
    "substitute_env_vars",
]

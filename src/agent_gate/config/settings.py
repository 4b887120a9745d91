"""config.yaml as typed, frozen data: where things are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from dataclasses import fields as dataclass_fields
from typing import Any

from agent_gate.config.problems import check_section
from agent_gate.model.tool import Json, Mode

_NEEDED = frozenset({"url", "approver", "notify"})
"""Fields for which an empty text is no absence."""


def _given(settings: Any) -> dict[str, Any]:
    """The fields of a section as a file has them, where an absent one is left out."""
    fields = {one.name: getattr(settings, one.name) for one in dataclass_fields(settings)}
    return {name: value for name, value in fields.items() if value not in ("", ()) or name in _NEEDED}


@dataclass(frozen=True)
class TLSConfig:
    cert: str
    key: str


@dataclass(frozen=True)
class GatewayConfig:
    host: str
    port: int
    tls: TLSConfig | None = None


@dataclass(frozen=True)
class AgentConfig:
    token: str = field(repr=False)
    id: str = "default"
    roles: tuple[str, ...] = ("operator",)
    projects: tuple[str, ...] = ("default",)
    mode: Mode = Mode.ASSISTED
    owner: str = ""


@dataclass(frozen=True)
class ApproverConfig:
    id: str
    token: str = field(default="", repr=False)
    telegram_user_id: int | None = None
    roles: tuple[str, ...] = ("operator",)


@dataclass(frozen=True)
class ProjectConfig:
    initial_state: Mapping[str, Json] = field(default_factory=dict)
    state_schema: Mapping[str, Json] | None = None


@dataclass(frozen=True)
class TelegramConfig:
    token: str = field(repr=False)
    chat_id: int
    allowed_users: list[int]
    api_base_url: str = "https://api.telegram.org"


@dataclass(frozen=True)
class MessengerConfig:
    type: str
    telegram: TelegramConfig | None = None


@dataclass(frozen=True)
class HomeApproverConfig:
    """A phone on which an approver answers."""

    approver: str
    """One of `approvers`, by id."""
    notify: str
    """The service that reaches this phone alone."""
    user_id: str = ""
    """Who is signed in on it, by Home Assistant's own id; empty: not looked at."""


@dataclass(frozen=True)
class HomeAssistantConfig:
    url: str
    token: str = field(default="", repr=False)
    """Empty: the owner's contact_info, then HOME_ASSISTANT_TOKEN."""
    verify_ssl: bool = False
    websocket_ping_interval: int = 30
    poll_interval_seconds: int = 60
    snapshot_interval_seconds: int = 300
    approvals: tuple[HomeApproverConfig, ...] = ()
    """Phones on which questions are shown and answered."""

    def __post_init__(self) -> None:
        """ConfigError for what a file could not say either."""
        phones = [_given(phone) for phone in self.approvals]
        fields = {**_given(self), **({"approvals": phones} if phones else {})}
        check_section("config", ("services", "homeassistant"), fields)


@dataclass(frozen=True)
class ServicesConfig:
    homeassistant: HomeAssistantConfig | None = None

    def __getitem__(self, name: str) -> Any:
        """A service by its name in the file; KeyError where it is off."""
        found = getattr(self, name, None)
        if not found:
            raise KeyError(name)
        return found


@dataclass(frozen=True)
class StorageConfig:
    type: str = "sqlite"
    path: str = "agent-gate.db"


@dataclass(frozen=True)
class RateLimitConfig:
    max_pending_approvals: int = 10
    max_requests_per_minute: int = 60


@dataclass(frozen=True)
class RouteConfig:
    """Which requests of Envoy's go through which chain; an empty field fits any."""

    chain: str
    route: str = ""
    """The name that the route has in Envoy's own configuration."""
    authority: str = ""
    """A host name, or `*.` and what it ends in."""
    path: str = ""
    """Whole segments that the path begins with."""
    bodies: bool = True
    """False: the chain sees headers only, and Envoy need not hold bodies back."""


@dataclass(frozen=True)
class PolicyAgentConfig:
    socket_path: str
    name: str = "agent-gate"
    fail_on_unknown: bool = True
    policy_timeout_ms: int = 5000
    max_body_size: int = 1_048_576
    max_state_size: int = 65_536
    max_concurrent_requests: int = 100
    allow_empty_chain: bool = False
    allow_uids: tuple[int, ...] = ()
    """Besides the user that runs the gate."""
    routes: tuple[RouteConfig, ...] = ()
    """The first that fits; a request that none fits is denied."""


@dataclass(frozen=True)
class ChainPolicyConfig:
    name: str
    version: str = ""
    metadata: Mapping[str, Json] = field(default_factory=dict, repr=False)
    on_failure: str = "deny"


@dataclass(frozen=True)
class Config:
    gateway: GatewayConfig
    agent: AgentConfig | None
    """The one agent of `agent:`; None where the file has `agents:`."""
    messenger: MessengerConfig | None
    services: ServicesConfig
    storage: StorageConfig
    approval_timeout: int = 900
    rate_limit: RateLimitConfig = field(default_factory=RateLimitConfig)
    agents: tuple[AgentConfig, ...] = ()
    """Every agent, also the one of `agent:`."""
    approvers: tuple[ApproverConfig, ...] = ()
    projects: Mapping[str, ProjectConfig] = field(default_factory=lambda: {"default": ProjectConfig()})
    policy_agent: PolicyAgentConfig | None = None
    chains: Mapping[str, tuple[ChainPolicyConfig, ...]] = field(default_factory=dict)
    policies: Mapping[str, Mapping[str, Json]] = field(default_factory=dict, repr=False)
    """What `initialize` of each chain policy is given, by its name."""

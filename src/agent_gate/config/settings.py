"""config.yaml as typed, frozen data: where things are.

Each field declares its setting: `model/setting.py` says how, and why annotations are not postponed here. A new one is
one field here; schema, defaults, messages, the value in `Config` and the reference page follow from it.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Any, Literal

from agent_gate.config.problems import check_section
from agent_gate.config.section import section
from agent_gate.model.setting import Setting
from agent_gate.model.tool import Json, Mode

Word = Annotated[str, Setting(min_length=1)]
Name = Annotated[Word, Setting(max_length=200)]
Token = Annotated[
    str, Setting(pattern=r"\S", form="a token: any text that is hard to guess and not empty", secret=True)
]
Identifier = Annotated[
    str,
    Setting(
        pattern="^[A-Za-z0-9][A-Za-z0-9_.@-]{0,199}$",
        form="an id: letters, digits and `_ . @ -`, starting with a letter or digit",
    ),
]
Url = Annotated[
    str, Setting(pattern=r"^https?://[^/\s]+", form="a URL that starts with https:// or http://", secret=True)
]
Positive = Annotated[int, Setting(minimum=1)]
Size = Annotated[int, Setting(minimum=0)]
Interval = Annotated[int, Setting(minimum=1, maximum=86400)]
Roles = Annotated[tuple[Name, ...], Setting(min_items=1, unique=True)]
TelegramId = Annotated[int, Setting(minimum=1, from_text=True)]


@section
class TLSConfig:
    """Certificate and key of the server."""

    cert: Annotated[Word, Setting("the path of the certificate")]
    key: Annotated[Word, Setting("the path of the private key")]


@section
class GatewayConfig:
    """Address of the server."""

    host: Annotated[Word, Setting("the address to listen on, such as 127.0.0.1")]
    port: Annotated[int, Setting("the port, such as 8443", minimum=0, maximum=65535, from_text=True)]
    tls: Annotated[
        TLSConfig | None, Setting("certificate and key; needed on every address that is not of this machine alone")
    ] = None


@section
class AgentConfig:
    """An agent that may connect."""

    token: Annotated[Token, Setting("what the agent shows")]
    id: Annotated[Identifier, Setting("its name in the ledger", needed=True, order=-1)] = "default"
    roles: Annotated[Roles, Setting("its roles in the policy")] = ("operator",)
    projects: Annotated[
        tuple[
            Annotated[
                str,
                Setting(
                    pattern=r"^(\*|[A-Za-z0-9][A-Za-z0-9_.-]{0,199})$", form="the name of a project, or `*` for all"
                ),
            ],
            ...,
        ],
        Setting("the projects that it may work in, or `*` for all", min_items=1, unique=True),
    ] = ("default",)
    mode: Annotated[Mode, Setting("how much it does on its own; a request can only be stricter")] = Mode.ASSISTED
    owner: Annotated[Identifier, Setting("the approver who may not approve its calls")] = ""


@section
class ApproverConfig:
    """A person who answers questions."""

    id: Annotated[Identifier, Setting("their name in the ledger")]
    token: Annotated[Token, Setting("what they show at the console and the commands")] = ""
    telegram_user_id: Annotated[TelegramId | None, Setting("who they are on Telegram")] = None
    roles: Annotated[Roles, Setting("their roles in the policy")] = ("operator",)


@section
class ProjectConfig:
    """A project, as it begins."""

    initial_state: Annotated[Mapping[str, Json], Setting("the state that it begins with")] = field(default_factory=dict)
    state_schema: Annotated[Mapping[str, Json] | None, Setting("the JSON Schema that its state must fit")] = None


@section
class TelegramConfig:
    """A bot in a chat."""

    token: Annotated[Token, Setting("the token of the bot")]
    chat_id: Annotated[int, Setting("the number of the chat", from_text=True)]
    allowed_users: Annotated[
        list[TelegramId], Setting("the numeric ids of those who may answer", min_items=1, unique=True)
    ]
    api_base_url: Annotated[Url, Setting("where the Bot API is")] = "https://api.telegram.org"


_LABEL = "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_PORT = "([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"


@section
class WebhookConfig:
    """A URL that is told of questions, signed; answers come back signed as well."""

    url: Annotated[
        str,
        Setting(
            "where questions are posted",
            pattern=rf"^(https://(\[[0-9A-Fa-f:]+\]|{_LABEL}(\.{_LABEL})*\.?)|http://(localhost|127\.0\.0\.1|\[::1\]))"
            rf"(:{_PORT})?([/?][^\s#\x00-\x1f\x7f]*)?$",
            form="an https:// URL without a user name; http:// only to localhost, 127.0.0.1 or [::1]",
            secret=True,
        ),
    ]
    secret: Annotated[
        str,
        Setting(
            "with which both sides sign",
            pattern=r"^whsec_([A-Za-z0-9+/]{4}){8,21}([A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)?$",
            form="`whsec_` and the base64 of 24 to 64 random bytes; make one with"
            " `echo whsec_$(openssl rand -base64 32)`",
            secret=True,
        ),
    ]


@section
class MessengerConfig:
    """A place where people are asked."""

    type: Annotated[Literal["telegram", "webhook"], Setting("the kind of messenger")]
    telegram: Annotated[
        TelegramConfig | None, Setting("a bot in a chat", remedy="write token, chat_id and allowed_users")
    ] = None
    webhook: Annotated[
        WebhookConfig | None, Setting("a URL that is told of questions", remedy="write url and secret")
    ] = None


@section
class HomeApproverConfig:
    """A phone on which an approver answers."""

    approver: Annotated[Identifier, Setting("one of `approvers`, by id", remedy="write the id of one of `approvers`")]
    notify: Annotated[
        str,
        Setting(
            "the service that reaches this phone alone",
            pattern=r"^notify\.mobile_app_[a-z0-9_]{1,200}$",
            form="a phone with the companion app, such as notify.mobile_app_annas_phone;"
            " elsewhere agents might read what is asked",
        ),
    ]
    user_id: Annotated[
        str,
        Setting(
            "who is signed in on it, by Home Assistant's own id; absent: not looked at",
            pattern="^[0-9a-f]{32}$",
            form="the id of a user of Home Assistant: 32 digits and letters a-f",
        ),
    ] = ""


@section
class HomeAssistantConfig:
    """A Home Assistant."""

    url: Annotated[Url, Setting("the base URL of Home Assistant", remedy="write the base URL of Home Assistant")]
    token: Annotated[
        Token, Setting("its access token; absent: the owner's contact_info, then HOME_ASSISTANT_TOKEN")
    ] = ""
    verify_ssl: Annotated[bool, Setting("true: its certificate is checked")] = False
    websocket_ping_interval: Annotated[Interval, Setting("seconds between pings")] = 30
    poll_interval_seconds: Annotated[Interval, Setting("seconds between reads while the WebSocket is down")] = 60
    snapshot_interval_seconds: Annotated[Interval, Setting("seconds between stored snapshots of its states")] = 300
    approvals: Annotated[
        tuple[HomeApproverConfig, ...],
        Setting("phones on which questions are shown and answered", min_items=1, max_items=100),
    ] = ()

    def __post_init__(self) -> None:
        """ConfigError for what a file could not say either."""
        check_section(self, ("services", "homeassistant"))


@section
class ServicesConfig:
    """Services that tools act on."""

    homeassistant: Annotated[HomeAssistantConfig | None, Setting("a Home Assistant")] = None

    def __getitem__(self, name: str) -> Any:
        """A service by its name in the file; KeyError where it is off."""
        found = getattr(self, name, None)
        if not found:
            raise KeyError(name)
        return found


@section
class StorageConfig:
    """Place of the ledger."""

    type: Annotated[Literal["sqlite"], Setting("the kind of storage", needed=True)] = "sqlite"
    path: Annotated[Word, Setting("the path of the ledger", needed=True)] = "agent-gate.db"


@section
class RateLimitConfig:
    """Bounds for each agent."""

    max_pending_approvals: Annotated[Positive, Setting("questions that may be open")] = 10
    max_requests_per_minute: Annotated[Positive, Setting("requests in the last 60 seconds")] = 60


@section
class RouteConfig:
    """A chain, and the requests of Envoy's that go through it; an absent field fits any."""

    chain: Annotated[Name, Setting("the name of a chain", remedy="name a chain")]
    route: Annotated[Name, Setting("the name that the route has in Envoy's own configuration")] = ""
    authority: Annotated[
        str,
        Setting(
            "a host name, or `*.` and what it ends in",
            pattern=r"^(\*\.)?[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$",
            form="a host name without a port, or `*.` and what it ends in",
        ),
    ] = ""
    path: Annotated[
        str,
        Setting(
            "whole segments that the path begins with",
            pattern=r"^/[^\s?#%\\]*$",
            form="what paths begin with, from the first `/`",
        ),
    ] = ""
    bodies: Annotated[bool, Setting("false: the chain sees headers only, and Envoy need not hold bodies back")] = True


@section
class PolicyAgentConfig:
    """The policy agent, and what it takes."""

    socket_path: Annotated[Word, Setting("the path of the Unix socket", max_length=107)]
    name: Annotated[Name, Setting("the name that it tells")] = "agent-gate"
    fail_on_unknown: Annotated[bool, Setting("false: a policy that is not here is passed over")] = True
    policy_timeout_ms: Annotated[Positive, Setting("the time for one policy")] = 5000
    max_body_size: Annotated[Size, Setting("the size of the largest body")] = 1_048_576
    max_state_size: Annotated[Size, Setting("the size of the largest state of a chain")] = 65_536
    max_concurrent_requests: Annotated[Positive, Setting("requests at a time")] = 100
    allow_empty_chain: Annotated[bool, Setting("true: a request without policies passes")] = False
    allow_uids: Annotated[
        tuple[Size, ...], Setting("users who may connect besides the one that runs the gate", unique=True)
    ] = ()
    routes: Annotated[
        tuple[RouteConfig, ...], Setting("the first that fits counts; a request that none fits is denied")
    ] = ()


@section
class ChainPolicyConfig:
    """One policy of a chain."""

    name: Annotated[Name, Setting("the name of the policy", remedy="name the policy")]
    version: Annotated[str, Setting("its version; absent: any")] = ""
    metadata: Annotated[Mapping[str, Json], Setting("its own settings", secret=True)] = field(default_factory=dict)
    on_failure: Annotated[
        Literal["deny", "continue", "skip_remaining"], Setting("what becomes of the request if the policy fails")
    ] = "deny"


def _with_default(projects: Mapping[str, ProjectConfig]) -> Mapping[str, ProjectConfig]:
    return {"default": ProjectConfig(), **projects}


@section
class Config:
    """Everything that a configuration says."""

    gateway: Annotated[GatewayConfig, Setting("the host and port to listen on", order=-1)]
    agent: Annotated[
        AgentConfig | None,
        Setting(
            "the one agent, with id `default`; instead of `agents`",
            order=-1,
            needed=False,
            leaves_out=("id", "roles", "projects", "mode", "owner"),
        ),
    ]
    """The one agent of `agent:`; None where the file has `agents:`."""
    messenger: Annotated[
        MessengerConfig | None, Setting("the one place where people are asked; instead of `messengers`", needed=False)
    ]
    services: Annotated[ServicesConfig, Setting("what tools act on", needed=False)]
    storage: Annotated[StorageConfig, Setting("where the ledger is", secret=True, needed=False)]
    approval_timeout: Annotated[Positive, Setting("seconds until a question expires")] = 900
    rate_limit: Annotated[RateLimitConfig, Setting("for each agent")] = field(default_factory=RateLimitConfig)
    agents: Annotated[tuple[AgentConfig, ...], Setting("several agents", min_items=1, order=-1)] = ()
    """Every agent, also the one of `agent:`."""
    approvers: Annotated[tuple[ApproverConfig, ...], Setting("people who answer", order=-1)] = ()
    projects: Annotated[
        Mapping[str, ProjectConfig],
        Setting(
            "by name; `default` is always there",
            made=_with_default,
            order=-1,
            names="^[A-Za-z0-9][A-Za-z0-9_.-]{0,199}$",
            form="names have letters, digits, `_`, `.` and `-`, and start with a letter or digit",
        ),
    ] = field(default_factory=lambda: {"default": ProjectConfig()})
    policy_agent: Annotated[PolicyAgentConfig | None, Setting("a policy agent on a Unix socket")] = None
    chains: Annotated[
        Mapping[str, Annotated[tuple[ChainPolicyConfig, ...], Setting(min_items=1)]],
        Setting(
            "by name, policies that requests go through in order: `api`, `outbound`, or named in a route",
            names="^[A-Za-z0-9][A-Za-z0-9_-]{0,199}$",
            form="names have letters, digits, `_` and `-`",
        ),
    ] = field(default_factory=dict)
    policies: Annotated[
        Mapping[str, Mapping[str, Json]],
        Setting(
            "by its name, what `initialize` of each chain policy is given",
            secret=True,
            names="^[A-Za-z_][A-Za-z0-9_.-]{0,199}$",
            form="names have letters, digits, `_`, `.` and `-`, and start with a letter or `_`",
            max_names=200,
        ),
    ] = field(default_factory=dict)
    messengers: Annotated[
        tuple[MessengerConfig, ...], Setting("several places where people are asked, each of another kind", min_items=1)
    ] = ()
    """Those of the list; `every_messenger` also knows the one of `messenger:`."""

    @property
    def every_messenger(self) -> tuple[MessengerConfig, ...]:
        return self.messengers if self.messenger is None else (self.messenger,)

"""policy.yaml as typed, frozen data: what is allowed, and within which limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from agent_gate.model.permission import PermissionRule, Permissions
from agent_gate.model.tool import Effect, Json, Mode, Risk


@dataclass(frozen=True, slots=True)
class PathGuard:
    allow_paths: tuple[str, ...] = ()
    deny_paths: tuple[str, ...] = ()
    max_size_bytes: int = 10_485_760
    allow_hidden: bool = False
    allow_hardlinks: bool = True
    """Reads only; a hard link is never written."""
    otherwise: str = "deny"
    """`ask`: what is merely not listed, or hidden, asks a person; what is denied by name stays denied."""


@dataclass(frozen=True, slots=True)
class UrlGuard:
    allow_domains: tuple[str, ...] = ()
    allow_schemes: tuple[str, ...] = ("https",)
    allow_ports: tuple[int, ...] = (443,)
    deny_private_ips: bool = True
    max_response_bytes: int = 10_485_760
    timeout_seconds: float = 30
    max_redirects: int = 5
    otherwise: str = "deny"


@dataclass(frozen=True, slots=True)
class CommandGuard:
    allow_executables: tuple[str, ...] = ()
    unchecked_executables: tuple[str, ...] = ()
    allow_env: tuple[str, ...] = ()
    trusted_dirs: tuple[str, ...] = ("/usr/bin", "/bin")
    deny_tokens: tuple[str, ...] = ()
    timeout_seconds: float = 60
    max_output_bytes: int = 1_048_576
    sandbox: str = "auto"
    writes: str = "judge"
    """What becomes of what a command writes: `judge`, `ask`, `none`, or `direct`: it reaches the disk unseen."""
    discard_paths: tuple[str, ...] = (
        "**/__pycache__/**",
        "**/.pytest_cache/**",
        "**/.mypy_cache/**",
        "**/.ruff_cache/**",
        "**/.coverage",
    )
    """Caches: thrown away, and no reason to deny."""
    max_changes: int = 10_000
    max_changed_bytes: int = 268_435_456
    otherwise: str = "deny"


@dataclass(frozen=True, slots=True)
class Guards:
    """Sections of `tools:`, by the tool that each is for; the tool says what it is made of."""

    sections: Mapping[str, Any] = field(default_factory=dict)

    def of(self, tool: str) -> Any:
        """The section of a tool; None where there is none."""
        return self.sections.get(tool)

    # Commands, files and the web look at each other's sections: what a program may see is what `fs.read` allows.

    @property
    def fs_read(self) -> PathGuard | None:
        return self.sections.get("fs.read")

    @property
    def fs_write(self) -> PathGuard | None:
        return self.sections.get("fs.write")

    @property
    def http_get(self) -> UrlGuard | None:
        return self.sections.get("http.get")

    @property
    def shell_run(self) -> CommandGuard | None:
        return self.sections.get("shell.run")


@dataclass(frozen=True, slots=True)
class Declare:
    """What the policy says of tools whose name matches; a field left out (None) changes nothing."""

    pattern: str
    effect: Effect | None = None
    risk: Risk | None = None
    cost: float | None = None
    required_roles: tuple[str, ...] | None = None
    confirmation_required: bool | None = None
    preconditions: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Role:
    max_risk: Risk
    effects: tuple[Effect, ...] = (Effect.NONE, Effect.READ, Effect.WRITE)


DEFAULT_ROLES: Mapping[str, Role] = MappingProxyType(
    {
        "viewer": Role(Risk.LOW, (Effect.READ,)),
        "operator": Role(Risk.MEDIUM),
        "admin": Role(Risk.HIGH),
    }
)


def roles_that_include(name: str) -> tuple[str, ...]:
    """The role itself, and of the three that are always there those above it: an admin is an operator too."""
    ladder = tuple(DEFAULT_ROLES)
    return ladder[ladder.index(name) :] if name in ladder else (name,)


@dataclass(frozen=True, slots=True)
class ProjectLimits:
    rate_per_minute: int | None = None
    rate_per_hour: int | None = None
    budget_daily: float | None = None
    steps: Mapping[Mode, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ApprovalRule:
    """Asks a person when the cost or the risk is reached; both named means both must be."""

    min_cost: float | None = None
    risk: Risk | None = None
    unless_role: str = ""
    approver_role: str = ""
    approvers_required: int = 1


@dataclass(frozen=True, slots=True)
class Window:
    """Days (0 is Monday) and minutes of the day, start inclusive, end exclusive; a window may cross midnight."""

    days: tuple[int, ...]
    start_minute: int
    end_minute: int


@dataclass(frozen=True, slots=True)
class Policy:
    permissions: Permissions = field(default_factory=Permissions)
    version: int = 1
    timezone: str = "UTC"
    deny_by_default: bool = False
    """`boundary: deny_by_default`: what no rule, guard or default speaks of is denied, not asked."""
    guards: Guards = field(default_factory=Guards)
    protected_paths: tuple[str, ...] = ()
    declare: tuple[Declare, ...] = ()
    max_calls_per_tool: int | None = None
    global_timeout_seconds: float | None = None
    roles: Mapping[str, Role] = field(default_factory=lambda: DEFAULT_ROLES)
    limits: ProjectLimits = field(default_factory=ProjectLimits)
    approvals: tuple[ApprovalRule, ...] = ()
    approvals_at_terminal: bool = False
    cooldown_seconds: float = 0
    windows: tuple[Window, ...] = ()
    """Empty: any time."""
    source: Mapping[str, Json] = field(default_factory=dict)
    """The file's content after substitution; what is hashed, stored and judged again."""

    @property
    def rules(self) -> list[PermissionRule]:
        return self.permissions.rules

    @property
    def defaults(self) -> list[PermissionRule]:
        return self.permissions.defaults

    def placed_rules(self) -> Iterator[tuple[str, PermissionRule]]:
        """Every rule and default, each with its place in the file."""
        for section, rules in (("rules", self.rules), ("defaults", self.defaults)):
            for number, rule in enumerate(rules):
                yield f"{section}[{number}]", rule

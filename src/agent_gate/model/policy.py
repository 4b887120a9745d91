"""policy.yaml as typed, frozen data: what is allowed, and within which limits.

Each field declares its setting: `model/setting.py` says how, and why annotations are not postponed here.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple, cast

from agent_gate.model.limit import LAST_HOUR, LAST_MINUTE, Always, Counts, Day, Limit, Scope
from agent_gate.model.permission import PermissionRule, Permissions
from agent_gate.model.roles import LADDER
from agent_gate.model.setting import Sections, Setting
from agent_gate.model.tool import Effect, Json, Mode, Risk

Word = Annotated[str, Setting(min_length=1)]
Words = tuple[Word, ...]
Count = Annotated[int, Setting(minimum=0)]
Amount = Annotated[float, Setting(minimum=0)]
Seconds = Annotated[float, Setting(above=0, maximum=604_800)]
Otherwise = Annotated[
    Literal["deny", "ask"],
    Setting("what becomes of a call that is merely not listed; what is denied by name stays denied"),
]


@dataclass(frozen=True, slots=True)
class PathGuard:
    """Section of `fs.read` and `fs.write`."""

    allow_paths: Annotated[Words, Setting("patterns of paths; nothing is allowed that none of them matches")] = ()
    deny_paths: Annotated[Words, Setting("patterns of paths that stay closed, whatever `allow_paths` says")] = ()
    max_size_bytes: Annotated[Count, Setting("the size of the largest file")] = 10_485_760
    allow_hidden: Annotated[
        bool, Setting("true: also names that begin with a dot after the fixed part of the pattern")
    ] = False
    allow_hardlinks: Annotated[
        bool, Setting("false: no file that has a second name; reads only, for such a file is never written")
    ] = True
    otherwise: Otherwise = "deny"


@dataclass(frozen=True, slots=True)
class UrlGuard:
    """Section of `http.get`."""

    allow_domains: Annotated[
        tuple[
            Annotated[
                str,
                Setting(
                    pattern=r"^(\*|(\*\.)?[^\s*/@?#%\\]+)$",
                    form="a domain: a name, `*.name` for its sub-domains, an address, or `*` alone",
                ),
            ],
            ...,
        ],
        Setting("hosts: a name, `*.name` for its sub-domains, an address, or `*` for any"),
    ] = ()
    allow_schemes: Annotated[tuple[Literal["https", "http"], ...], Setting("schemes")] = ("https",)
    allow_ports: Annotated[tuple[Annotated[int, Setting(minimum=1, maximum=65535)], ...], Setting("ports")] = (443,)
    deny_private_ips: Annotated[
        bool, Setting("false: also loopback, private networks, link-local addresses and metadata services")
    ] = True
    max_response_bytes: Annotated[Count, Setting("the size of the largest answer")] = 10_485_760
    timeout_seconds: Annotated[Seconds, Setting("the time for the whole fetch")] = 30
    max_redirects: Annotated[Count, Setting("redirects that are followed, each judged anew", maximum=20)] = 5
    otherwise: Otherwise = "deny"


@dataclass(frozen=True, slots=True)
class CommandGuard:
    """Section of `shell.run`."""

    allow_executables: Annotated[Words, Setting("programs by name or full path; no patterns")] = ()
    unchecked_executables: Annotated[Words, Setting("allowed programs whose arguments nobody reads")] = ()
    allow_env: Annotated[
        tuple[
            Annotated[str, Setting(pattern="^[A-Za-z_][A-Za-z0-9_]*$", form="the name of an environment variable")], ...
        ],
        Setting("environment variables that a call may set"),
    ] = ()
    trusted_dirs: Annotated[
        tuple[Annotated[str, Setting(pattern="^/", form="an absolute path")], ...],
        Setting("directories in which names are looked up"),
    ] = ("/usr/bin", "/bin")
    deny_tokens: Annotated[
        Words, Setting("words that no command may have; one with other characters matches anywhere")
    ] = ()
    timeout_seconds: Annotated[Seconds, Setting("the time for one command")] = 60
    max_output_bytes: Annotated[Count, Setting("the most that a command may print")] = 1_048_576
    sandbox: Annotated[Literal["auto", "off"], Setting("off: commands run without a sandbox")] = "auto"
    writes: Annotated[
        Literal["judge", "ask", "none", "direct"],
        Setting("what becomes of what a command writes; with `direct` it reaches the disk unseen"),
    ] = "judge"
    discard_paths: Annotated[Words, Setting("caches: thrown away, and no reason to deny")] = (
        "**/__pycache__/**",
        "**/.pytest_cache/**",
        "**/.mypy_cache/**",
        "**/.ruff_cache/**",
        "**/.coverage",
    )
    max_changes: Annotated[Count, Setting("the most files that a command may change")] = 10_000
    max_changed_bytes: Annotated[Count, Setting("the most bytes that a command may change")] = 268_435_456
    otherwise: Otherwise = "deny"


@dataclass(frozen=True, slots=True)
class Guards:
    """Sections of `tools:`, by the tool that each is for; the tool declares what is in it (`Section`)."""

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
    """The policy's word on tools whose name matches; a field left out (None) changes nothing."""

    pattern: str
    effect: Annotated[Effect | None, Setting("what a call does to the world")] = None
    risk: Annotated[Risk | None, Setting("how bad a mistaken call would be")] = None
    cost: Annotated[Amount | None, Setting("what a call counts against the budget")] = None
    required_roles: Annotated[Words | None, Setting("roles of which the agent needs one")] = None
    confirmation_required: Annotated[bool | None, Setting("true: a call must say `confirmed: true`")] = None
    preconditions: Annotated[Words | None, Setting("expressions that must hold")] = None


@dataclass(frozen=True, slots=True)
class Role:
    """Bounds of what an agent or a person with this role may do."""

    max_risk: Annotated[Risk, Setting("the highest risk that it may take; needed for a role of your own")]
    effects: Annotated[tuple[Effect, ...], Setting("the effects that it may have", unique=True)] = (
        Effect.NONE,
        Effect.READ,
        Effect.WRITE,
    )


DEFAULT_ROLES: Mapping[str, Role] = MappingProxyType(
    dict(zip(LADDER, (Role(Risk.LOW, (Effect.READ,)), Role(Risk.MEDIUM), Role(Risk.HIGH)), strict=True))
)


def roles_with(given: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Role]:
    """The default roles and those of a file; one that is only given more risk keeps its effects: a viewer stays one."""
    own = {name: replace(DEFAULT_ROLES.get(name, Role(Risk.LOW)), **fields) for name, fields in given.items()}
    return {**DEFAULT_ROLES, **own}


@dataclass(frozen=True, slots=True)
class ProjectLimits:
    """Limits of one project."""

    rate_per_minute: Annotated[
        Count | None,
        Setting("calls in the last 60 seconds", at=("rate", "per_minute")),
        Limit(
            "minute", Scope.PROJECT, LAST_MINUTE, Counts.CALLS, 1012,
            "{used:g} calls in the last minute, of {limit:g} allowed", instead="slow down",
        ),
    ] = None  # fmt: skip
    rate_per_hour: Annotated[
        Count | None,
        Setting("calls in the last 60 minutes", at=("rate", "per_hour")),
        Limit(
            "hour", Scope.PROJECT, LAST_HOUR, Counts.CALLS, 1012,
            "{used:g} calls in the last hour, of {limit:g} allowed", instead="slow down",
        ),
    ] = None  # fmt: skip
    budget_daily: Annotated[
        Amount | None,
        Setting("the cost of all calls of a day in `timezone`", at=("budget", "daily")),
        Limit(
            "budget", Scope.PROJECT, Day(), Counts.COST, 1013,
            "a cost of {amount:g} on top of {used:g} spent today exceeds the daily budget of {limit:g}",
            instead="wait until tomorrow", fact="spent_today",
        ),
    ] = None  # fmt: skip
    steps: Annotated[Mapping[Mode, Count], Setting("the most steps of a plan, by the mode of its agent")] = field(
        default_factory=dict
    )


@dataclass(frozen=True, slots=True)
class ApprovalRule:
    """Asks a person when the cost or the risk is reached; both named means both must be."""

    min_cost: Annotated[Amount | None, Setting("asks from this cost on")] = None
    risk: Annotated[Risk | None, Setting("asks from this risk on")] = None
    unless_role: Annotated[Word, Setting("asks nobody where the agent has this role")] = ""
    approver_role: Annotated[Word, Setting("the role that an approver needs")] = ""
    approvers_required: Annotated[int, Setting("how many must agree", minimum=1, maximum=100)] = 1


@dataclass(frozen=True, slots=True)
class Window:
    """Days (0 is Monday) and minutes of the day, start inclusive, end exclusive; a window may cross midnight."""

    days: tuple[int, ...]
    start_minute: int
    end_minute: int


_Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
_DAYS: tuple[_Day, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_TimeOfDay = Annotated[
    str, Setting(pattern="^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$", form='a time of day such as "08:00"')
]


@dataclass(init=False, repr=False, eq=False)
class WindowSection:
    """Fields of a window as people write it; without days it is every day, without hours the whole day."""

    days: Annotated[tuple[_Day, ...], Setting("days of the week; absent: every day", min_items=1, unique=True)] = _DAYS
    hours: Annotated[
        tuple[_TimeOfDay, ...],
        Setting("start and end; absent: the whole day; a window may cross midnight", min_items=2, max_items=2),
    ] = ("00:00", "24:00")


def minute_of(text: str) -> int:
    """`08:30` is 510; `24:00` is the end of the day."""
    hours, _, minutes = text.partition(":")
    return int(hours) * 60 + int(minutes)


def _windows(sections: Sequence[Mapping[str, Any]]) -> tuple[Window, ...]:
    return tuple(map(_window, sections))


def _window(fields: Mapping[str, Any]) -> Window:
    start, end = fields.get("hours", WindowSection.hours)
    return Window(
        tuple(sorted(map(_DAYS.index, fields.get("days", WindowSection.days)))), minute_of(start), minute_of(end)
    )


def _declares(given: Mapping[str, Mapping[str, Any]]) -> tuple[Declare, ...]:
    return tuple(Declare(pattern, **fields) for pattern, fields in given.items())


@dataclass(frozen=True, slots=True)
class Policy:
    """One version of a policy file."""

    version: Annotated[int, Setting("the version of this format", only=1)] = 1
    timezone: Annotated[Word, Setting("an IANA name, for windows and daily budgets")] = "UTC"
    permissions: Annotated[Permissions, Setting(flat=True)] = field(default_factory=Permissions)
    deny_by_default: Annotated[
        bool,
        Setting(
            "what becomes of a call of which no rule, guard or default speaks: it is denied; absent: a person is asked",
            at=("boundary",),
            shape=Literal["deny_by_default"],
            made=bool,
        ),
    ] = False
    guards: Annotated[
        Guards,
        Setting(
            "guards; each of these tools is denied without its section", at=("tools",), shape=Sections, made=Guards
        ),
    ] = field(default_factory=Guards)
    protected_paths: Annotated[Words, Setting("patterns of paths that no tool may read or write")] = ()
    declare: Annotated[
        tuple[Declare, ...],
        Setting(
            "by patterns of names, what tools are that do not say; built-in tools can only be tightened",
            shape=Mapping[str, Annotated[Declare, Setting(partial=True, not_empty=True, leaves_out=("pattern",))]],
            made=_declares,
        ),
    ] = ()
    max_calls_per_tool: Annotated[
        Count | None,
        Setting("calls of one tool in one run"),
        Limit(
            "run", Scope.TOOL_IN_RUN, Always(), Counts.CALLS, 1007,
            "`{tool}` was called {used:g} times in this run, of {limit:g} allowed", fact="calls_of_tool_in_run",
        ),
    ] = None  # fmt: skip
    global_timeout_seconds: Annotated[Seconds | None, Setting("the time for one run, also while a step is running")] = (
        None
    )
    roles: Annotated[
        Mapping[str, Role],
        Setting(
            "by name, added to viewer, operator and admin; a field given here replaces theirs",
            shape=Mapping[str, Annotated[Role, Setting(partial=True, not_empty=True)]],
            made=roles_with,
        ),
    ] = field(default_factory=lambda: DEFAULT_ROLES)
    limits: Annotated[ProjectLimits, Setting("for each project; an absent limit is none")] = field(
        default_factory=ProjectLimits
    )
    approvals: Annotated[tuple[ApprovalRule, ...], Setting("when a person is asked although the rules allow")] = ()
    approvals_at_terminal: Annotated[
        bool, Setting("true: the person at the terminal of `agent-gate run` may answer")
    ] = False
    cooldown_seconds: Annotated[Amount, Setting("after a no, how long the same signature is denied without asking")] = 0
    windows: Annotated[
        tuple[Window, ...],
        Setting(
            "the days and hours in which calls are allowed; absent: any time",
            remedy="list the days and hours in which calls are allowed",
            at=("windows", "allowed"),
            shape=tuple[Annotated[WindowSection, Setting(partial=True, not_empty=True)], ...],
            made=_windows,
            min_items=1,
            needed=True,
        ),
    ] = ()
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


class LimitSetting(NamedTuple):
    """A kind of limit, and where a policy sets it."""

    limit: Limit
    key: str
    """In policy.yaml."""
    fields: tuple[str, ...]
    """From the policy to the value."""

    def value(self, policy: Policy) -> float | None:
        """Return what the policy sets; None where it sets nothing."""
        found: Any = policy
        for name in self.fields:
            found = getattr(found, name)
        return cast("float | None", found)


def _limits_of(section: Any, *around: str) -> Iterator[LimitSetting]:
    for one in fields(section):
        said: Sequence[object] = getattr(one.type, "__metadata__", ())
        for limit in (found for found in said if isinstance(found, Limit)):
            at = next((found.at for found in said if isinstance(found, Setting) and found.at), (one.name,))
            yield LimitSetting(limit, ".".join((*around, *at)), (*around, one.name))


LIMITS: Mapping[str, LimitSetting] = MappingProxyType(
    {one.limit.name: one for one in (*_limits_of(ProjectLimits, "limits"), *_limits_of(Policy))}
)
"""All kinds, by name, in the order in which a call is held against them."""

"""A tool's declaration, as its author states it: what it takes, what it may do, and how its calls are judged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

Json: TypeAlias = Any
"""A JSON value; `Any` because recursive aliases cost more in casts than they catch."""


class Effect(Enum):
    NONE = "none"
    """Pure: a function of inputs and state to a new state."""
    READ = "read"
    WRITE = "write"


class Risk(Enum):
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"

    @property
    def rank(self) -> int:
        return _RISK_RANK[self]

    def exceeds(self, other: Risk) -> bool:
        return self.rank > other.rank


_RISK_RANK = {Risk.LOW: 0, Risk.MEDIUM: 1, Risk.HIGH: 2}


class Mode(Enum):
    """Degrees to which an agent acts on its own; strictest first."""

    __hash__ = object.__hash__

    INTERACTIVE = "interactive"
    ASSISTED = "assisted"
    AUTONOMOUS = "autonomous"

    @property
    def rank(self) -> int:
        return _MODE_RANK[self]

    def capped_by(self, ceiling: Mode) -> Mode:
        return self if self.rank <= ceiling.rank else ceiling


_MODE_RANK = {Mode.INTERACTIVE: 0, Mode.ASSISTED: 1, Mode.AUTONOMOUS: 2}


class ArgumentKind(Enum):
    """Ways in which an argument enters the signature."""

    IDENTIFIER = "identifier"
    TEXT = "text"
    UNSIGNED = "unsigned"


Signer: TypeAlias = Callable[[Mapping[str, Json]], tuple[str, ...]]
"""From the arguments of a call to its signatures, of which it has at least one; ValueError where they have none."""
Aliases: TypeAlias = Callable[[Mapping[str, Json], Json], Iterable[str]]
"""From the arguments of a call and the state that it would act on to other names of what it does."""


@dataclass(frozen=True, slots=True)
class Reach:
    """Effects of calls that their signatures cannot name; each function is given one signature."""

    goes_beyond: Callable[[str], bool] = lambda _: False
    """Tell whether nobody can know what else the call does: its risk is high."""
    why_ungranted: Callable[[str], str] = lambda _: ""
    """Say why nobody can agree to such calls beforehand, so that a person is asked each time; empty where one can."""


@dataclass(frozen=True, slots=True)
class Section:
    """The section that a guarded tool takes under `tools:` of a policy."""

    declared_by: Any
    """The frozen dataclass whose fields declare its settings (`model/setting.py`), bare or in `Annotated`."""
    example: str = ""
    """A section as people would write it."""
    is_needed: bool = True
    """True where the tool is denied if the policy has no such section."""


@dataclass(frozen=True, slots=True)
class GuardedBy:
    """The guard of a tool: pure judgement of what a call would touch, from what binding found of it."""

    build: Callable[[Any, Any], Callable[[Any, Any], Any]]
    """From the section (None without one) and a `GuardContext` to a `Guard`; ValueError for what no guard can go by.

    Those types are in `policy/guards`: they know calls and policies, which know tools, and cannot be named here.
    """
    section: Section | None = None
    """None: the guard goes by other sections, and has none of its own."""


class PatternMistake(NamedTuple):
    """A reason why a rule's pattern matches no signature, and the pattern without the mistake, where one can tell."""

    why: str
    mended: str = ""


@dataclass(frozen=True, slots=True)
class ToolDeclaration:
    """The tool's word on itself; `policy.declare` may tighten it.

    All of it is pure, so that calls can be judged, and judged again, where the tool itself is not.
    """

    name: str
    description: str = ""
    input_schema: Mapping[str, Json] = field(default_factory=dict)
    """JSON Schema of the arguments; empty means any object."""
    arguments: Mapping[str, ArgumentKind] = field(default_factory=dict)
    """Kinds of arguments that are not plain `text`."""
    effect: Effect = Effect.WRITE
    risk: Risk = Risk.MEDIUM
    cost: float = 1
    required_roles: tuple[str, ...] = ()
    """The agent needs one of these; none named means any role."""
    confirmation_required: bool = False
    preconditions: tuple[str, ...] = ()
    sensitive: frozenset[str] = frozenset()
    secret: frozenset[str] = frozenset()
    timeout_s: float | None = None
    registered: bool = True
    """False for a name that nobody offers here, judged by what the policy alone can know."""
    order: tuple[str, ...] = ()
    """The order of its arguments in signatures, where it is that of a function's parameters; otherwise by key."""
    sign: Signer | None = None
    """Signatures of a form of its own, of which a call may have several; otherwise one, made of the arguments."""
    aliases: Aliases | None = None
    reach: Reach | None = None
    guard: GuardedBy | None = None
    intent: bool = False
    """True where the ledger must know of a read before it happens, as it always does of writes and of what costs."""
    signed_when_bound: bool = False
    """True where its signatures come from what binding finds in the world, and not from the arguments alone."""
    looks: bool = False
    """True where, with effect `none`, it gives the state back as it was: for roles it counts as a read."""
    closed_world: bool = False
    """True where its effects end at things that the gate's owner owns."""
    mistake_in: Callable[[str], PatternMistake | None] | None = None
    """Finds why a rule's pattern, given from its bracket on, matches no call of the tool."""
    warnings: Callable[[Any], Iterable[str]] | None = None
    """List what a `Policy` says of the tool without effect, for whoever loads it; one line each."""

    @property
    def section(self) -> Section | None:
        """The one that it takes under `tools:`."""
        return self.guard.section if self.guard is not None else None

    def to_json(self) -> dict[str, Json]:
        """Write out what judging needs of it, for the record."""
        fields: dict[str, Json] = {
            "confirmation_required": self.confirmation_required,
            "cost": self.cost,
            "effect": self.effect.value,
            "preconditions": list(self.preconditions),
            "required_roles": list(self.required_roles),
            "risk": self.risk.value,
        }
        brought = {"guarded": self.guard is not None, "reaches": self.reach is not None}
        return fields | {name: True for name, is_so in brought.items() if is_so}

    def as_recorded(self, fields: Mapping[str, Json]) -> ToolDeclaration:
        """The tool as it once described itself, with the guard and reach of today where it had some then."""
        guard = (self.guard or _UNKNOWN_GUARD) if "guarded" in fields else None
        return replace(
            self,
            effect=Effect(fields["effect"]),
            risk=Risk(fields["risk"]),
            cost=fields["cost"],
            required_roles=tuple(fields["required_roles"]),
            confirmation_required=fields["confirmation_required"],
            preconditions=tuple(fields["preconditions"]),
            guard=guard,
            reach=self.reach if "reaches" in fields else None,
        )

    def kind_of(self, argument: str) -> ArgumentKind:
        if argument in self.secret:
            return ArgumentKind.UNSIGNED
        return self.arguments.get(argument, ArgumentKind.TEXT)


def _nobody_knows(_: Any, __: Any) -> Any:
    raise ValueError("the tool has a guard, which is not known here")


_UNKNOWN_GUARD = GuardedBy(_nobody_knows)
"""Of a recorded tool that is not here: whoever judges by it denies."""

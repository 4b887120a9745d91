"""What can be called: a tool's declaration, as its author or the policy states it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias

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
    """How much an agent does on its own; strictest first."""

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
    """How an argument enters the signature."""

    IDENTIFIER = "identifier"
    TEXT = "text"
    UNSIGNED = "unsigned"


@dataclass(frozen=True, slots=True)
class ToolDeclaration:
    """What a tool says of itself; `policy.declare` may tighten it."""

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

    def to_json(self) -> dict[str, Json]:
        """What judging needs of it, for the record."""
        return {
            "confirmation_required": self.confirmation_required,
            "cost": self.cost,
            "effect": self.effect.value,
            "preconditions": list(self.preconditions),
            "required_roles": list(self.required_roles),
            "risk": self.risk.value,
        }

    @classmethod
    def from_json(cls, name: str, fields: Mapping[str, Json]) -> ToolDeclaration:
        return cls(
            name,
            effect=Effect(fields["effect"]),
            risk=Risk(fields["risk"]),
            cost=fields["cost"],
            required_roles=tuple(fields["required_roles"]),
            confirmation_required=fields["confirmation_required"],
            preconditions=tuple(fields["preconditions"]),
        )

    def kind_of(self, argument: str) -> ArgumentKind:
        if argument in self.secret:
            return ArgumentKind.UNSIGNED
        return self.arguments.get(argument, ArgumentKind.TEXT)

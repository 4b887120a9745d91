"""The fixed table of functions that expressions can call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from agent_gate.policy.operations import (
    ITEMS_PER_STEP,
    TEXT_CHARS_PER_STEP,
    Budget,
    ExpressionError,
    kind,
    less,
    number,
    text,
)

Function: TypeAlias = Callable[[Budget, Sequence[object]], object]


def _len(_: Budget, args: Sequence[object]) -> object:
    (value,) = args
    if not isinstance(value, str | list | tuple | Mapping):
        raise ExpressionError(f"len() of {kind(value)}")
    return len(value)


def _extreme(budget: Budget, args: Sequence[object], largest: bool) -> object:
    values = args
    if len(args) == 1:
        (only,) = args
        if not isinstance(only, list | tuple) or not only:
            raise ExpressionError("min() and max() take two or more values, or one list that is not empty")
        values = only
    budget.charge(len(values), ITEMS_PER_STEP)
    best = values[0]
    less(budget, best, best)
    for value in values[1:]:
        if less(budget, best, value) if largest else less(budget, value, best):
            best = value
    return best


def _min(budget: Budget, args: Sequence[object]) -> object:
    return _extreme(budget, args, largest=False)


def _max(budget: Budget, args: Sequence[object]) -> object:
    return _extreme(budget, args, largest=True)


def _abs(_: Budget, args: Sequence[object]) -> object:
    return abs(number(args[0]))


def _lower(budget: Budget, args: Sequence[object]) -> object:
    value = text(args[0])
    budget.charge(len(value), TEXT_CHARS_PER_STEP)
    return value.lower()


def _startswith(_: Budget, args: Sequence[object]) -> object:
    return text(args[0]).startswith(text(args[1]))


def _endswith(_: Budget, args: Sequence[object]) -> object:
    return text(args[0]).endswith(text(args[1]))


def _get(budget: Budget, args: Sequence[object]) -> object:
    """`get(value, 'a.b', default)`: what is there, else the default (null if not given); a digit picks from a list."""
    value, path = args[0], text(args[1])
    default = args[2] if len(args) > 2 else None
    budget.charge(len(path), TEXT_CHARS_PER_STEP)
    for step in path.split("."):
        if isinstance(value, Mapping) and step in value:
            value = value[step]
        elif isinstance(value, list | tuple) and _is_position(step) and int(step) < len(value):
            value = value[int(step)]
        else:
            return default
    return value


def _is_position(step: str) -> bool:
    return step.isascii() and step.isdigit() and len(step) < 8


FUNCTIONS: Mapping[str, tuple[Function, int, int]] = {
    "len": (_len, 1, 1),
    "min": (_min, 1, 100),
    "max": (_max, 1, 100),
    "abs": (_abs, 1, 1),
    "lower": (_lower, 1, 1),
    "startswith": (_startswith, 2, 2),
    "endswith": (_endswith, 2, 2),
    "get": (_get, 2, 3),
}
"""Every function of the language, with the fewest and the most arguments it takes."""

"""Operators of expressions, on JSON values and within their budgets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from agent_gate.model.bounds import EXPRESSION_RESULT_CHARS_MAX, EXPRESSION_STEPS_MAX, INTEGER_MAX

Number: TypeAlias = int | float
Operation: TypeAlias = Callable[["Budget", object, object], object]

TEXT_CHARS_PER_STEP = 256
ITEMS_PER_STEP = 16


class ExpressionError(ValueError):
    """An expression that is not in the language, or that cannot be worked out on the values it was given."""


class Budget:
    """Steps left in one evaluation.

    The number of nodes is bounded when an expression is compiled and nothing loops,
    so only work that grows with the values is charged here.
    """

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = EXPRESSION_STEPS_MAX

    def charge(self, size: int, per_step: int) -> None:
        self.left -= size // per_step + 1
        if self.left < 0:
            raise ExpressionError(f"more than {EXPRESSION_STEPS_MAX} steps; compare smaller values")


def kind(value: object) -> str:
    """The word for a value in messages, which never show the value itself: it may be a secret."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true/false"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "text"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, Mapping):
        return "an object"
    raise ExpressionError(f"a value of type {type(value).__name__} is not JSON")


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def number(value: object) -> Number:
    """The value if it is a number that arithmetic stays exact and finite on; true and false are not numbers."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ExpressionError(f"expected a number, got {kind(value)}")
    beyond = not -INTEGER_MAX <= value <= INTEGER_MAX
    if beyond and (isinstance(value, int) or value - value != 0):
        raise ExpressionError(f"an integer beyond ±{INTEGER_MAX}, or a number that is not finite")
    return value


def text(value: object) -> str:
    if not isinstance(value, str):
        raise ExpressionError(f"expected text, got {kind(value)}")
    return value


def _room_for(size: int) -> None:
    if size > EXPRESSION_RESULT_CHARS_MAX:
        raise ExpressionError(f"a result of more than {EXPRESSION_RESULT_CHARS_MAX} characters or items")


def add(_: Budget, left: object, right: object) -> object:
    if isinstance(left, str) and isinstance(right, str):
        _room_for(len(left) + len(right))
        return left + right
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        _room_for(len(left) + len(right))
        return [*left, *right]
    return number(number(left) + number(right))


def subtract(_: Budget, left: object, right: object) -> object:
    return number(number(left) - number(right))


def multiply(_: Budget, left: object, right: object) -> object:
    if isinstance(left, int):
        left, right = right, left
    if isinstance(left, str | list | tuple):
        times = number(right)
        if not isinstance(times, int):
            raise ExpressionError(f"cannot repeat {kind(left)} by a fraction")
        _room_for(len(left) * max(times, 0))
        return left * times
    return number(number(left) * number(right))


def divide(_: Budget, left: object, right: object) -> object:
    return number(number(left) / _divisor(right))


def floor_divide(_: Budget, left: object, right: object) -> object:
    return number(number(left) // _divisor(right))


def modulo(_: Budget, left: object, right: object) -> object:
    return number(number(left) % _divisor(right))


def _divisor(value: object) -> Number:
    divisor = number(value)
    if divisor == 0:
        raise ExpressionError("division by zero")
    return divisor


def equal(budget: Budget, left: object, right: object) -> bool:
    """JSON equality: `1 == 1.0`, but `1 != True`; lists and objects item by item."""
    if isinstance(left, str) or isinstance(right, str) or left is None or right is None:
        return left == right
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        budget.charge(len(left), ITEMS_PER_STEP)
        return len(left) == len(right) and all(equal(budget, a, b) for a, b in zip(left, right, strict=True))
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        budget.charge(len(left), ITEMS_PER_STEP)
        return left.keys() == right.keys() and all(equal(budget, left[key], right[key]) for key in left)
    if is_number(left) and is_number(right):
        return number(left) == number(right)
    kind(left), kind(right)
    return False


def ordered(left: object, right: object) -> tuple[Number, Number] | tuple[str, str]:
    """Both values, if one of them can be less than the other."""
    if isinstance(left, str) and isinstance(right, str):
        return left, right
    if not is_number(left) or not is_number(right):
        raise ExpressionError(f"cannot order {kind(left)} and {kind(right)}")
    return number(left), number(right)


def contains(budget: Budget, item: object, container: object) -> bool:
    """`item in container`: a part of a text, an item of a list, a key of an object."""
    if isinstance(container, str):
        budget.charge(len(container), TEXT_CHARS_PER_STEP)
        return text(item) in container
    if isinstance(container, list | tuple):
        budget.charge(len(container), ITEMS_PER_STEP)
        if isinstance(item, str):
            return item in container
        return any(equal(budget, item, each) for each in container)
    if isinstance(container, Mapping):
        return text(item) in container
    raise ExpressionError(f"cannot look inside {kind(container)} with `in`")


def less(_: Budget, left: object, right: object) -> bool:
    low, high = ordered(left, right)
    return low < high  # type: ignore[operator]  # `ordered` gives one kind on both sides


def item(container: object, key: object) -> object:
    """`container[key]`; what is not there is a LookupError."""
    if isinstance(container, Mapping):
        value: object = container[text(key)]
        return value
    if isinstance(container, str | list | tuple):
        return container[_index(key)]
    raise ExpressionError(f"cannot take a part of {kind(container)}")


def part(container: object, first: object, last: object) -> object:
    """`container[first:last]`, where null stands for an end."""
    if not isinstance(container, str | list | tuple):
        raise ExpressionError(f"cannot take a part of {kind(container)}")
    start = None if first is None else _index(first)
    return container[start : None if last is None else _index(last)]


def _index(key: object) -> int:
    index = number(key)
    if not isinstance(index, int):
        raise ExpressionError("a position must be a whole number")
    return index

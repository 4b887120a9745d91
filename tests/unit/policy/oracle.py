"""A second evaluator of permission rules, as simple as can be, to hold the compiled index against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from agent_gate.model.permission import PermissionRule


class Answer(NamedTuple):
    """`rule` is its place in the file, such as `rules[3]`, or empty; `failed` says that its condition did."""

    decision: str
    rule: str = ""
    failed: bool = False


def answer(
    rules: Sequence[PermissionRule],
    defaults: Sequence[PermissionRule],
    signature: str,
    env: Mapping[str, Any] | None,
) -> Answer:
    for action in ("deny", "allow", "ask"):
        for number, rule in enumerate(rules):
            if rule.action == action and fnmatchcase(signature, rule.pattern):
                spoken = _spoken(rule, f"rules[{number}]", env)
                if spoken:
                    return spoken
    for number, rule in enumerate(defaults):
        if fnmatchcase(signature, rule.pattern):
            spoken = _spoken(rule, f"defaults[{number}]", env)
            if spoken:
                return spoken
    return Answer("nothing")


def _spoken(rule: PermissionRule, place: str, env: Mapping[str, Any] | None) -> Answer | None:
    if not rule.when:
        return Answer(rule.action, place)
    if env is None:
        return Answer("deny", place, failed=True)
    try:
        # Python itself is the other implementation; tests give it only conditions of their own making.
        applies = eval(rule.when, {"__builtins__": _FUNCTIONS}, dict(env))
    except Exception:
        return Answer("deny", place, failed=True)
    if not isinstance(applies, bool):
        return Answer("deny", place, failed=True)
    return Answer(rule.action, place) if applies else None


def _get(value: Any, path: str, default: Any = None) -> Any:
    for step in path.split("."):
        try:
            value = value[int(step) if isinstance(value, list) else step]
        except (LookupError, TypeError, ValueError):
            return default
    return value


_FUNCTIONS = {
    "len": len,
    "min": min,
    "max": max,
    "abs": abs,
    "lower": str.lower,
    "startswith": str.startswith,
    "endswith": str.endswith,
    "get": _get,
}

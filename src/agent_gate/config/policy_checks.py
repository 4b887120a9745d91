"""Checks of what a policy means beyond its shape: expressions compile, names exist, times make sense."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agent_gate.config.places import Field, mapping_at, mappings_at, value_at
from agent_gate.config.problems import Problems
from agent_gate.model.policy import DEFAULT_ROLES, minute_of
from agent_gate.model.tool import Json
from agent_gate.policy.expression import ExpressionError, compile_expression


def check_meaning(value: Json, problems: Problems) -> None:
    """Adds what is wrong besides the shape; a field whose shape is already blamed is passed over."""
    _check_expressions(value, problems)
    _check_paths(value, problems)
    _check_programs(value, problems)
    _check_roles(value, problems)
    _check_windows(value, problems)
    _check_timezone(value, problems)


def _check_expressions(value: Json, problems: Problems) -> None:
    found = [(place, source) for place, source in _expressions(value) if not problems.blames(place)]
    for place, source in found:
        try:
            compile_expression(source)
        except ExpressionError as error:
            variable = problems.document.variables.get(place)
            problems.add(place, f"the value of {variable} is not an expression" if variable else str(error))


def _expressions(value: Json) -> Iterator[tuple[Field, Any]]:
    for key in ("defaults", "rules"):
        for place, rule in mappings_at(value, key):
            if "when" in rule:
                yield (*place, "when"), rule["when"]
    for pattern in mapping_at(value, "declare"):
        sources = value_at(value, "declare", pattern, "preconditions")
        for number, source in enumerate(sources if isinstance(sources, list) else ()):
            yield ("declare", pattern, "preconditions", number), source


def _check_paths(value: Json, problems: Problems) -> None:
    found = [(place, source) for place, source in _path_patterns(value) if not problems.blames(place)]
    if not found:
        return
    from agent_gate.policy.guards.path_patterns import mistake_in  # noqa: PLC0415 -- 20 ms (guards and msgspec)

    for place, source in found:
        mistake = mistake_in(source)
        if mistake:
            problems.add(place, f"{problems.shown(place, source)} {mistake}")


def _path_patterns(value: Json) -> Iterator[tuple[Field, Any]]:
    lists = [("tools", tool, key) for tool in ("fs.read", "fs.write") for key in ("allow_paths", "deny_paths")]
    for place in (*lists, ("tools", "shell.run", "discard_paths"), ("protected_paths",)):
        sources = value_at(value, *place)
        for number, source in enumerate(sources if isinstance(sources, list) else ()):
            if isinstance(source, str):
                yield (*place, number), source


def _check_programs(value: Json, problems: Problems) -> None:
    """Programs are listed by name: a pattern among them would stand there without effect."""
    for key in ("allow_executables", "unchecked_executables"):
        listed = value_at(value, "tools", "shell.run", key)
        for number, name in enumerate(listed if isinstance(listed, list) else ()):
            place = ("tools", "shell.run", key, number)
            if isinstance(name, str) and not problems.blames(place) and ("*" in name or "?" in name):
                problems.add(
                    place,
                    f"{problems.shown(place, name)} is a pattern, and programs are listed by name;"
                    " list them, or write `otherwise: ask` under shell.run, and a person is asked about the others",
                )


def _check_roles(value: Json, problems: Problems) -> None:
    roles = mapping_at(value, "roles")
    for name, role in roles.items():
        if isinstance(role, dict) and "max_risk" not in role and name not in DEFAULT_ROLES:
            problems.add(("roles", name, "max_risk"), "missing; write low, medium or high")
    known = {*DEFAULT_ROLES, *roles}
    for place, approval in mappings_at(value, "approvals"):
        if "min_cost" not in approval and "risk" not in approval:
            problems.add(place, "never asks; say from which min_cost or risk on")
        for key in ("unless_role", "approver_role"):
            field = (*place, key)
            if key in approval and not problems.blames(field) and approval[key] not in known:
                names = ", ".join(sorted(known))
                problems.add(field, f"{problems.shown(field, approval[key])} is not a role; known are {names}")


def _check_windows(value: Json, problems: Problems) -> None:
    for place, allowed in mappings_at(value, "windows", "allowed"):
        hours = (*place, "hours")
        if "hours" not in allowed or any(problems.blames(field) for field in (hours, (*hours, 0), (*hours, 1))):
            continue
        start, end = map(minute_of, allowed["hours"])
        if start == 24 * 60:
            problems.add(hours, "a window cannot start at 24:00; write 00:00")
        elif start == end:
            problems.add(hours, 'start and end are the same; write ["00:00", "24:00"] for the whole day')


def _check_timezone(value: Json, problems: Problems) -> None:
    name = value_at(value, "timezone")
    if name in (None, "UTC") or problems.blames(("timezone",)):
        return
    from zoneinfo import ZoneInfo  # noqa: PLC0415  # 5 ms that most policies need not pay

    try:
        ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        given = problems.shown(("timezone",), name)
        problems.add(("timezone",), f"{given} is not a known time zone; write a name such as Europe/Berlin")

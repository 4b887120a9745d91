"""Every way to be refused or to fail has a stable code, a name and a class."""

from __future__ import annotations

import pytest

from agent_gate.model.errors import (
    NAMES,
    ConfigError,
    ExecutionError,
    GateError,
    IdentityError,
    PlanValidationError,
    PolicyDeniedError,
    Problem,
    ReplayError,
    StorageError,
    ToolError,
)

CODES = {
    1: range(1001, 1023),
    2: range(2001, 2009),
    3: range(3001, 3005),
    4: range(4001, 4005),
    5: range(5001, 5005),
    6: range(6001, 6004),
}


def test_the_codes_are_those_of_the_interface() -> None:
    assert sorted(NAMES) == [code for family in CODES.values() for code in family]
    assert len(set(NAMES.values())) == len(NAMES)


@pytest.mark.parametrize("code", sorted(NAMES))
def test_a_problem_is_raised_as_the_class_of_its_code(code: int) -> None:
    kinds = {
        1: PolicyDeniedError,
        2: ToolError,
        3: PlanValidationError,
        4: ReplayError,
        5: StorageError,
        6: ConfigError if code == 6001 else IdentityError,
    }
    problem = Problem(code, "what", "do this", "decide")
    error = GateError.of(problem)
    assert type(error) is kinds[code // 1000]
    assert (error.problem, error.code) == (problem, code)
    assert str(error) == f"{NAMES[code]}: what; do this"


def test_a_problem_as_json_and_back() -> None:
    problem = Problem(1002, "`/etc` is outside", "add it", "decide")
    assert problem.to_json() == {
        "code": 1002,
        "name": "path_denied",
        "stage": "decide",
        "detail": "`/etc` is outside",
        "suggestion": "add it",
    }
    assert Problem.from_json(problem.to_json()) == problem
    bare = Problem(2001, "")
    assert bare.to_json() == {"code": 2001, "name": "unknown_tool"}
    assert Problem.from_json(bare.to_json()) == bare


def test_a_message_is_one_line_whatever_it_quotes() -> None:
    assert str(Problem(2003, "first\nsecond\r\n\tthird", "a\nb")) == "tool_failed: first second third; a b"


def test_a_problem_keeps_the_stage_it_has() -> None:
    assert Problem(2002, "x").at("bind").stage == "bind"
    assert Problem(2002, "x", stage="admit").at("bind").stage == "admit"


def test_an_execution_error_is_the_bare_sentence() -> None:
    error = ExecutionError("Unknown tool: x")
    assert (str(error), error.code, isinstance(error, ToolError)) == ("Unknown tool: x", 2001, True)


def test_a_config_error_holds_every_problem_at_once() -> None:
    error = ConfigError.of_all(["one", "two"])
    assert (error.problems, error.code) == (("one", "two"), 6001)
    assert str(error) == "config: one; two"
    assert ConfigError("only").problems == ("only",)


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (GateError, 2003),
        (PolicyDeniedError, 1001),
        (ToolError, 2003),
        (PlanValidationError, 3001),
        (ReplayError, 4001),
        (StorageError, 5002),
        (ConfigError, 6001),
        (IdentityError, 6002),
    ],
)
def test_each_class_has_its_ordinary_code(kind: type[GateError], code: int) -> None:
    assert kind("x").code == code
    assert issubclass(kind, GateError)

"""Every number and boolean of a file can come from the environment."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from agent_gate.chain.configured import check_chains
from agent_gate.config import ConfigError, load_config, load_policy
from agent_gate.config.__main__ import FORMATS
from agent_gate.config.coercion import coerce
from agent_gate.config.places import field_name, value_at
from agent_gate.config.problems import check_schema, with_environment
from agent_gate.config.yaml_file import Document
from agent_gate.system.clock import SystemClock
from tests.unit.config.fields import Known, file_with, leaves

NUMERIC = [
    pytest.param(name, known, id=f"{name}:{known.name}")
    for name in ("config", "policy")
    for known in leaves(name)
    if known.kind in ("integer", "number", "boolean")
]
SMALL = {"gateway": {"host": "127.0.0.1", "port": 8443}, "agent": {"token": "agent-secret"}}


def fitting(known: Known) -> str:
    part = known.part
    if known.kind == "boolean":
        return "true"
    if "exclusiveMinimum" in part:
        return "0.5"
    return str(part.get("const", max(part.get("minimum", 3), 1)))


def complaints(schema_name: str, known: Known, text: str) -> tuple[Any, list[str]]:
    """What becomes of the field, and what is wrong with it."""
    document, problems = with_environment(Document("file", file_with(known.place, text)), FORMATS[schema_name])
    check_schema(document, FORMATS[schema_name], problems)
    told = [problem for problem in problems.texts() if problem.startswith(f"file: {field_name(known.place)}: ")]
    return value_at(document.value, *known.place), told


def test_there_are_numbers_and_booleans_to_try() -> None:
    assert len(NUMERIC) > 40


@pytest.mark.parametrize(("schema_name", "known"), NUMERIC)
def test_a_number_or_boolean_that_is_all_variable_is_what_its_field_is(
    schema_name: str, known: Known, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATE_X", fitting(known))
    value, told = complaints(schema_name, known, "${GATE_X}")
    assert told == []
    assert type(value) is not str


@pytest.mark.parametrize(("schema_name", "known"), NUMERIC)
@pytest.mark.parametrize("text", ["", "soon", "yes", " 1", "0x10", "1_000", "9" * 400])
def test_a_variable_that_is_neither_is_told_by_its_name_alone(
    schema_name: str, known: Known, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATE_X", text)
    _, (told,) = complaints(schema_name, known, "${GATE_X}")
    assert "the value of ${GATE_X} is not " in told


def test_a_text_of_digits_stays_a_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATE_X", "5")
    fields = {**SMALL, "agent": {"token": "${GATE_X}"}, "projects": {"home": {"initial_state": {"n": "${GATE_X}"}}}}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(fields))
    config = load_config(tmp_path / "config.yaml")
    assert config.agent is not None
    assert (config.agent.token, config.projects["home"].initial_state) == ("5", {"n": "5"})


def test_a_variable_among_other_text_is_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATE_X", "5")
    with pytest.raises(ConfigError, match=r"max_calls_per_tool: the value of \$\{GATE_X\} is not a whole number"):
        load_policy({"max_calls_per_tool": "${GATE_X}0"})


def test_the_settings_hold_numbers_and_booleans_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"AT": "60", "PENDING": "3", "RATE": "7", "SSL": "true", "LIMIT": "9", "PER": "0.5"}.items():
        monkeypatch.setenv(name, value)
    fields = {
        **SMALL,
        "approval_timeout": "${AT}",
        "rate_limit": {"max_pending_approvals": "${PENDING}", "max_requests_per_minute": "${RATE}"},
        "services": {"homeassistant": {"url": "http://ha", "verify_ssl": "${SSL}"}},
        "chains": {"api": [{"name": "rate_limit", "metadata": {"limit": "${LIMIT}", "per_seconds": "${PER}"}}]},
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(fields))
    config = load_config(tmp_path / "config.yaml", check=partial(check_chains, clock=SystemClock()))
    home = config.services.homeassistant
    assert (config.approval_timeout, config.rate_limit.max_pending_approvals) == (60, 3)
    assert (config.rate_limit.max_requests_per_minute, home and home.verify_ssl) == (7, True)
    assert config.chains["api"][0].metadata == {"limit": 9, "per_seconds": 0.5}


def test_a_policy_holds_and_hashes_the_number_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATE_X", "5")
    by_variable = load_policy(
        {"version": 1, "declare": {"x": {"cost": "${GATE_X}"}}, "max_calls_per_tool": "${GATE_X}"}
    )
    assert by_variable == load_policy({"version": 1, "declare": {"x": {"cost": 5}}, "max_calls_per_tool": 5})


@pytest.mark.parametrize(
    ("part", "text", "value"),
    [
        ({"type": "integer"}, "5", 5),
        ({"type": ["integer", "null"]}, "5", 5),
        ({"type": ["integer", "string"]}, "5", "5"),
        ({"anyOf": [{"type": "number"}, {"type": "null"}]}, "5.5", 5.5),
        ({"anyOf": [{"type": "number"}, {"type": "string"}]}, "5.5", "5.5"),
        ({"enum": [1, 2]}, "2", 2),
        ({"enum": ["1", "2"]}, "2", "2"),
        ({"type": "boolean"}, "false", False),
        ({"type": "boolean"}, "1", "1"),
        ({"$ref": "#/$defs/count"}, "5", 5),
        ({"$ref": "#/$defs/loop"}, "5", "5"),
        ({"$ref": "#/$defs/nosuch"}, "5", "5"),
        ({}, "5", "5"),
        (True, "5", "5"),
    ],
)
def test_what_a_schema_of_somebody_else_says_of_a_field_counts(part: Any, text: str, value: Any) -> None:
    document = {"x": [text]}
    defs = {"count": {"type": "integer"}, "loop": {"$ref": "#/$defs/loop"}}
    coerce(document, [("x", 0)], {"properties": {"x": {"items": part}}, "$defs": defs})
    assert document == {"x": [value]}


def test_a_pattern_that_python_cannot_read_is_passed_over() -> None:
    document = {"x": "5"}
    coerce(document, [("x",)], {"patternProperties": {r"\p{L}": {"type": "integer"}}})
    assert document == {"x": "5"}


@given(st.text(), st.sampled_from(["integer", "number", "boolean"]))
def test_no_text_of_the_environment_makes_it_fail(text: str, kind: str) -> None:
    document = {"x": text}
    coerce(document, [("x",)], {"properties": {"x": {"type": kind}}})
    assert document["x"] == text or not isinstance(document["x"], str)

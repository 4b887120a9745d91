"""`${NAME}` is replaced after parsing: everywhere in texts, and never by anything that changes the structure."""

from __future__ import annotations

from typing import Any

import pytest

from agent_gate.config import ConfigError, load_policy, substitute_env_vars


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATE_A", "alpha")
    monkeypatch.setenv("GATE_B", "beta")
    monkeypatch.setenv("GATE_EMPTY", "")
    monkeypatch.setenv("GATE_TRICK", "${GATE_A}: {x: 1}\n- y")
    monkeypatch.delenv("GATE_UNSET", raising=False)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("${GATE_A}", "alpha"),
        ("x${GATE_A}y${GATE_B}${GATE_A}", "xalphaybetaalpha"),
        ({"a": {"b": ["${GATE_A}", {"c": "${GATE_B}"}]}}, {"a": {"b": ["alpha", {"c": "beta"}]}}),
        ([1, 2.5, True, False, None], [1, 2.5, True, False, None]),
        ("${GATE_EMPTY}", ""),
        ("${GATE_TRICK}", "${GATE_A}: {x: 1}\n- y"),
        ({"${GATE_A}": 1}, {"${GATE_A}": 1}),
        ("$GATE_A $ { } $${GATE_A} ${", "$GATE_A $ { } $alpha ${"),
        ({}, {}),
        ([], []),
    ],
)
def test_texts_are_replaced_at_every_depth_and_nothing_else(value: Any, expected: Any) -> None:
    replaced = substitute_env_vars(value)
    assert (replaced, repr(replaced)) == (expected, repr(expected))


def test_the_given_value_stays_as_it_was() -> None:
    value = {"a": ["${GATE_A}"]}
    substitute_env_vars(value)
    assert value == {"a": ["${GATE_A}"]}


def test_every_unset_variable_is_named_with_its_field() -> None:
    with pytest.raises(ConfigError) as refused:
        substitute_env_vars({"a": ["${GATE_UNSET}"], "b": "${GATE_A}${GATE_NEITHER}"})
    assert refused.value.problems == (
        "a[0]: environment variable GATE_UNSET is not set; set it, or write a value",
        "b: environment variable GATE_NEITHER is not set; set it, or write a value",
    )


@pytest.mark.parametrize("text", ["${}", "${GATE-A}", "${ GATE_A }", "${1}", "${steps.x.data}", "${GATE_A:-x}"])
def test_what_is_written_like_a_variable_but_names_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="does not name an environment variable"):
        substitute_env_vars(text)


def test_a_variable_that_is_not_utf_8_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATE_BYTES", "\udcff")
    with pytest.raises(ConfigError, match="GATE_BYTES is not UTF-8 text"):
        substitute_env_vars("${GATE_BYTES}")


def test_values_are_replaced_in_a_policy_and_kept_in_its_source() -> None:
    policy = load_policy({"rules": [{"pattern": "${GATE_A}(*)", "action": "deny"}]})
    assert (policy.rules[0].pattern, policy.source) == (
        "alpha(*)",
        {"rules": [{"pattern": "alpha(*)", "action": "deny"}]},
    )


def test_a_message_names_the_variable_and_never_shows_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATE_KEY", "hunter2")
    fields = {
        "rules": [{"pattern": "x", "action": "${GATE_KEY}"}, {"pattern": "x", "action": "deny", "when": "${GATE_KEY}"}],
        "timezone": "${GATE_KEY}",
        "approvals": [{"risk": "high", "unless_role": "${GATE_KEY}"}],
        "windows": {"allowed": [{"hours": ["${GATE_KEY}", "10:00"]}]},
        "max_calls_per_tool": "${GATE_KEY}",
    }
    with pytest.raises(ConfigError) as refused:
        load_policy(fields)
    assert "hunter2" not in str(refused.value)
    assert refused.value.problems == (
        "policy: approvals[0].unless_role: the value of ${GATE_KEY} is not a role; known are admin, operator, viewer",
        "policy: max_calls_per_tool: the value of ${GATE_KEY} is not a whole number",
        "policy: rules[0].action: the value of ${GATE_KEY} is not one of allow, deny, ask",
        "policy: rules[1].when: the value of ${GATE_KEY} is not an expression",
        "policy: timezone: the value of ${GATE_KEY} is not a known time zone; write a name such as Europe/Berlin",
        'policy: windows.allowed[0].hours[0]: the value of ${GATE_KEY} is not a time of day such as "08:00"',
    )

"""What a policy says without effect: which programs it lists that are refused all the same, and why."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from agent_gate.config import load_policy
from agent_gate.config.policy_warnings import warnings_of
from tests.gates import a_gate


def warnings(*listed: str, **section: object) -> tuple[str, ...]:
    return warnings_of(load_policy({"tools": {"shell.run": {"allow_executables": list(listed), **section}}}))


def test_programs_with_rules_for_their_words_are_nothing_to_warn_of() -> None:
    assert warnings("git", "ls", "/usr/bin/grep", "awk") == ()
    assert warnings_of(load_policy({"rules": []})) == ()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("python3", "it runs code that its words name, so that it may only be asked for its version"),
        ("/usr/bin/perl", "it runs code that its words name, so that it may only be asked for its version"),
        ("python3.12", "it runs code that its words name, so that it may only be asked for its version"),
        ("env", "it is there to start other programs"),
        ("cargo", "there are no rules for its arguments"),
    ],
)
def test_a_program_that_is_refused_whatever_its_words_is_told_with_the_reason_and_the_remedy(
    name: str, why: str
) -> None:
    [warning] = warnings("git", name)
    assert warning == (
        f"allow_executables of shell.run: `{name}` is refused all the same: {why}; name it in"
        " unchecked_executables too, where only the sandbox holds it, or take it out"
    )
    assert warnings(name, unchecked_executables=[name.rpartition("/")[2]]) == ()


def test_where_a_person_would_be_asked_about_it_the_remedy_says_so() -> None:
    assert warnings("bash", otherwise="ask")[0].endswith("or take it out, so that a person is asked")


def rules(*listed: tuple[str, str] | tuple[str, str, str]) -> list[dict[str, str]]:
    return [dict(zip(("action", "pattern", "when"), each, strict=False)) for each in listed]


DENIED_PERSONS = ("deny", "ha_get_state(person.*)")


@pytest.mark.parametrize(
    "denied",
    [
        "ha_get_state(person.*)",
        "ha_get_state*",
        "ha_get_*",
        "ha_get_entity_state(person.anna)",
        'ha_get_history(*"person.*',
        "ha_get_statistics(*)",
    ],
)
def test_a_policy_that_denies_reading_and_allows_templates_is_warned_of(denied: str) -> None:
    [warning] = warnings_of(load_policy({"rules": rules(("allow", "ha_*"), ("deny", denied), DENIED_PERSONS)}))
    assert warning == (
        f"rules[1] `{denied}` denies reading, but `ha_*` allows `ha_render_template`, and a template reads whatever"
        " there is: deny it, or ask about it"
    )


@pytest.mark.parametrize(
    "listed",
    [
        [DENIED_PERSONS, ("allow", "ha_get_*")],
        [DENIED_PERSONS, ("allow", "ha_*"), ("deny", "ha_render_template")],
        [DENIED_PERSONS, ("ask", "ha_render_template*")],
        [("deny", "ha_*"), ("allow", "ha_render_template")],
        [("deny", "ha_call_service(lock.*)"), ("allow", "*")],
        [("deny", "*secret*"), ("allow", "*")],
        [("ask", "ha_get_state(person.*)"), ("allow", "*")],
        [("allow", "*")],
    ],
)
def test_where_templates_are_held_or_nothing_is_denied_to_read_there_is_no_such_warning(listed: list[Any]) -> None:
    assert warnings_of(load_policy({"rules": rules(*listed)})) == ()


def test_templates_that_are_allowed_by_a_default_or_under_a_condition_count_too() -> None:
    by_default = {"rules": rules(DENIED_PERSONS), "defaults": rules(("allow", "ha_*"))}
    sometimes = {"rules": rules(DENIED_PERSONS, ("allow", "*", "hour < 8"))}
    held_sometimes = {"rules": rules(DENIED_PERSONS, ("deny", "ha_render_template", "hour < 8"), ("allow", "ha_*"))}
    for policy in (by_default, sometimes, held_sometimes):
        assert len(warnings_of(load_policy(policy))) == 1


async def test_a_gate_logs_the_warnings_of_its_policy(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "agent_gate")
    async with a_gate(tmp_path, {"tools": {"shell.run": {"allow_executables": ["bash"]}}}):
        pass
    assert [record.getMessage()[:52] for record in caplog.records] == [
        "allow_executables of shell.run: `bash` is refused al"
    ]

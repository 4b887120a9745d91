"""Rules about functions whose arguments once stood by name: those that match nothing else any more are told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent_gate.config import load_policy
from agent_gate.config.policy_warnings import warnings_of
from agent_gate.model.tool import ToolDeclaration
from agent_gate.policy.signature import signatures_for
from agent_gate.toolkit import registered_tool, tool


@tool("mark.add")
def add(url: str, title: str, stars: int = 0) -> None:
    """Keep a page."""


ADD = registered_tool(add).declaration


def told(pattern: str, declaration: ToolDeclaration = ADD) -> list[str]:
    policy = load_policy({"rules": [{"pattern": pattern, "action": "deny"}]})
    return [each for each in warnings_of(policy, {declaration.name: declaration}) if "order of their names" in each]


def test_arguments_of_a_function_stand_in_the_order_of_its_parameters() -> None:
    args = {"title": "Home", "url": "https://a.test/x"}
    assert signatures_for(ADD, args) == ("mark.add(https://a.test/x, Home, )",)
    assert signatures_for(ADD, {**args, "stars": 3}) == ("mark.add(https://a.test/x, Home, 3)",)


def test_arguments_that_only_a_schema_names_stand_by_key() -> None:
    declaration = replace(ADD, order=())
    args = {"url": "https://a.test/x", "title": "Home"}
    assert signatures_for(declaration, args) == ("mark.add(, Home, https://a.test/x)",)


@pytest.mark.parametrize(
    ("pattern", "mended"),
    [
        ("mark.add(*, *, https://*)", "mark.add(https://*, *, *)"),
        ("mark.add(*, https://evil.test/*)", "mark.add(https://evil.test/*, *, *)"),
        ("mark.add(*, Home, *a.test*)", "mark.add(*a.test*, Home, *)"),
    ],
)
def test_a_rule_that_matches_only_the_old_order_is_told_with_the_one_that_is_meant(pattern: str, mended: str) -> None:
    (warning,) = told(pattern)
    assert warning.startswith(f"rules[0] `{pattern}`: it matches only arguments in the order of their names ")
    assert warning.endswith(f"(url, title, stars); write `{mended}`")


@pytest.mark.parametrize(
    "pattern",
    [
        "mark.add(https://*)",
        "mark.add(https://*, Home, *)",
        "mark.add(*, spam, *)",
        "mark.add(*spam*)",
        "mark.add(*)",
        "mark.*",
        "mark.add(a, b, c, d)",
        "other(*, *, https://*)",
    ],
)
def test_a_rule_that_may_match_as_arguments_stand_now_is_not(pattern: str) -> None:
    assert told(pattern) == []


def test_nor_is_one_about_a_tool_whose_arguments_stand_by_key() -> None:
    assert told("mark.add(*, *, https://*)", replace(ADD, order=())) == []

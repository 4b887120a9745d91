"""Tests that the quick way to read the options of `check` and Typer's way are one."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_gate.doors.cli import check, checking, program
from agent_gate.doors.cli.ordinary import FLAGS, VALUES, read_check
from agent_gate.doors.cli.tree import root
from agent_gate.model.tool import Mode


def _known_to_typer() -> dict[str, bool]:
    """Every name of an option of `check`, and whether it is a flag."""
    group: Any = root()
    with group.make_context("agent-gate", [], resilient_parsing=True) as context:
        command = group.get_command(context, "check")
    return {name: param.is_flag for param in command.params for name in param.opts}


def test_both_ways_know_the_same_options() -> None:
    assert {**dict.fromkeys(VALUES, False), **dict.fromkeys(FLAGS, True)} == _known_to_typer()


def test_both_ways_have_the_same_defaults() -> None:
    def defaults(function: Any) -> dict[str, Any]:
        return {name: parameter.default for name, parameter in inspect.signature(function).parameters.items()}

    by_typer = defaults(check.check)
    by_typer["roles"] = tuple(by_typer.pop("role") or ())
    assert by_typer == defaults(checking.run_check)


_words = st.lists(
    st.one_of(
        st.sampled_from(
            [*VALUES, *FLAGS, *(mode.value for mode in Mode), "--", "-", "-h", "x", "a=b", "--tool=x", "-px"]
        ),
        st.text(max_size=4),
    ),
    max_size=7,
)


@given(_words)
def test_whatever_the_quick_way_reads_typer_reads_alike(words: list[str]) -> None:
    quick = read_check(words)
    if quick is None:
        return
    seen: list[dict[str, Any]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(check, "run_check", lambda **options: seen.append(options))
        program._invoke_by_typer(["check", *words])
    names = inspect.signature(checking.run_check).parameters
    assert seen == [{name: quick.get(name, parameter.default) for name, parameter in names.items()}]


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["-h"],
        ["--tool"],
        ["--tool=x"],
        ["--tool", "--json"],
        ["--mode", "wild"],
        ["--tool", ""],
        ["x"],
        ["--"],
        ["--tool", "a", "--tool", "b"],
    ],
)
def test_what_is_not_plain_is_left_to_typer(words: list[str]) -> None:
    assert read_check(words) is None

"""Tests that the quick way to read ordinary command lines and Typer's way are one."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_gate.doors.cli import check, fast_commands, fast_path, list_runs, program, run
from agent_gate.doors.cli.fast_path import FORMS, read
from agent_gate.doors.cli.tree import root
from agent_gate.model.tool import Mode

WORK: dict[str, tuple[Any, Any, str]] = {
    "check": (fast_commands.check, check, "run_check"),
    "list-runs": (fast_commands.list_runs, list_runs, "print_runs"),
    "run": (fast_commands.run, run, "run_file"),
}
"""By command: what Typer calls, and what it calls in its turn."""

every_command = pytest.mark.parametrize("name", FORMS)


@pytest.fixture(autouse=True)
def _no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AGENT_GATE_DB", raising=False)


def _known_to_typer(name: str) -> dict[str, bool]:
    """Every name of an option, and whether it is a flag; an argument by its own name."""
    group: Any = root()
    with group.make_context("agent-gate", [], resilient_parsing=True) as context:
        command = group.get_command(context, name)
    return {word: getattr(param, "is_flag", False) for param in command.params for word in param.opts}


def _read_by_typer(words: list[str]) -> list[dict[str, Any]]:
    """What the work would be given; nothing where Typer refuses."""
    _, _, function = WORK[words[0]]
    seen: list[dict[str, Any]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fast_commands, function, lambda **options: seen.append(options))
        program._invoke_by_typer(words)
    return seen


def _with_defaults(name: str, quick: dict[str, Any]) -> dict[str, Any]:
    work = getattr(*WORK[name][1:])
    return {key: quick.get(key, parameter.default) for key, parameter in inspect.signature(work).parameters.items()}


@every_command
def test_both_ways_know_the_same_options(name: str) -> None:
    form = FORMS[name]
    arguments = [form.argument] if form.argument else []
    known = {**dict.fromkeys([*form.values, *arguments], False), **dict.fromkeys(form.flags, True)}
    assert known == _known_to_typer(name)


@every_command
def test_both_ways_have_the_same_defaults(name: str) -> None:
    def defaults(function: Any) -> dict[str, Any]:
        return {key: parameter.default for key, parameter in inspect.signature(function).parameters.items()}

    by_typer, module, function = WORK[name]
    declared = defaults(by_typer)
    if "role" in declared:
        declared["roles"] = tuple(declared.pop("role") or ())
    assert declared == defaults(getattr(module, function))


def test_both_ways_do_the_same_work() -> None:
    assert {name: form.work() for name, form in FORMS.items()} == {
        name: getattr(module, function) for name, (_, module, function) in WORK.items()
    }


_ODD_WORDS = ["--", "-", "-h", "x", "a=b", "--tool=x", "-px", "1", "0", "007", "1_0", "-1", "١", "\ud800", "\n"]


def _lines(name: str) -> st.SearchStrategy[list[str]]:
    form = FORMS[name]
    values = st.sampled_from([*_ODD_WORDS, *(mode.value for mode in Mode)]) | st.text(max_size=4)
    pair = st.tuples(st.sampled_from(sorted(form.values)), values).map(list)
    alone = (st.sampled_from([*form.values, *form.flags]) | values).map(lambda word: [word])
    return st.lists(pair | alone, max_size=5).map(lambda parts: [name, *(word for part in parts for word in part)])


@given(st.sampled_from(sorted(FORMS)).flatmap(_lines), st.sampled_from([None, "", "of the variable.db"]))
def test_whatever_the_quick_way_reads_typer_reads_alike(words: list[str], variable: str | None) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if variable is not None:
            patch.setenv("AGENT_GATE_DB", variable)
        quick = read(FORMS[words[0]], words[1:])
        if quick is not None:
            assert _read_by_typer(words) == [_with_defaults(words[0], quick)]


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("check --tool a.b --role x --role y", {"tool": "a.b", "roles": ("x", "y")}),
        ("list-runs --limit 20 --db of.db --json", {"limit": 20, "db": "of.db", "as_json": True}),
        (
            "run -p p.yaml plan.yaml --mode assisted --no-fail-fast",
            {"plan": Path("plan.yaml"), "policy": Path("p.yaml"), "mode": Mode.ASSISTED, "no_fail_fast": True},
        ),
    ],
)
def test_ordinary_lines_are_read_the_quick_way(line: str, options: dict[str, Any]) -> None:
    name, *words = line.split()
    assert read(FORMS[name], words) == options


def test_the_variable_names_the_ledger_where_the_line_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_GATE_DB", "there.db")
    assert read(FORMS["list-runs"], []) == {"db": "there.db"}
    assert read(FORMS["list-runs"], ["--db", "here.db"]) == {"db": "here.db"}
    assert read(FORMS["check"], ["--tool", "x"]) == {"tool": "x"}


@pytest.mark.parametrize(
    "line",
    [
        ["check", "--help"],
        ["check", "-h"],
        ["check", "--tool"],
        ["check", "--tool=x"],
        ["check", "--tool", "--json"],
        ["check", "--mode", "wild"],
        ["check", "--tool", ""],
        ["check", "x"],
        ["check", "--"],
        ["check", "--tool", "a", "--tool", "b"],
        ["list-runs", "--limit", "0"],
        ["list-runs", "--limit", "many"],
        ["list-runs", "more"],
        ["list-runs", "--db", ""],
        ["run"],
        ["run", "--json"],
        ["run", "one.yaml", "two.yaml"],
        ["run", "plan.yaml", "-p"],
        ["run", "plan.yaml", "-c=x"],
        ["run", "\udcff.yaml"],
    ],
)
def test_what_is_not_plain_is_left_to_typer(line: list[str]) -> None:
    assert fast_path.run_fast(line) is None


@pytest.mark.parametrize("line", [[], ["audit"], ["--help"], ["--json", "run"]])
def test_other_commands_are_left_to_typer(line: list[str]) -> None:
    assert fast_path.run_fast(line) is None


def test_a_file_that_may_not_be_read_is_left_to_typer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)  # root may read everything
    (tmp_path / "plan.yaml").touch()
    assert read(FORMS["run"], [str(tmp_path / "plan.yaml")]) is None
    assert read(FORMS["run"], [str(tmp_path / "none.yaml")]) is not None

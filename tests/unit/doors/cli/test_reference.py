"""Tests that every command of this release is there, explains itself, and is in the reference."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_gate.doors.cli.catalogue import COMMANDS, SECTIONS
from agent_gate.doors.cli.tree import root

ROOT = Path(__file__).resolve().parents[4]

PROMISED = {
    "init": {"--force", "--db", "--json"},
    "demo": {"--once", "--json"},
    "check": {"--tool", "--args", "--calls", "-p", "--working-dir", "--resolve", "--json"},
    "audit": {"--limit", "--tool", "--agent", "--status", "--since", "--db", "--json"},
    "verify": {"--anchor", "--db", "--json"},
    "export": {"--format", "--output", "--db", "--json"},
    "state show": {"--project", "--db", "--json"},
    "state history": {"--project", "--db", "--json"},
    "state diff": {"--project", "--db", "--json"},
    "state revert": {"-p", "--project", "--db", "--json"},
    "project list": {"--db", "--json"},
    "project create": {"--initial-state", "--state-schema", "--db", "--json"},
    "project archive": {"--db", "--json"},
    "project lock": {"--db", "--json"},
    "project unlock": {"--db", "--json"},
    "db upgrade": {"--db", "--json"},
    "db backup": {"--db", "--json"},
    "db erase": {"--yes", "--db", "--json"},
    "db retain": {"--days", "--yes", "--db", "--json"},
    "mcp": {"-c", "-p", "--db", "--agent", "--project", "--working-dir", "--wait", "--log-level", "--json"},
    "owner set": {"--db", "--json"},
    "owner list": {"--db", "--json"},
    "owner unset": {"--db", "--json"},
    "doctor": {"--db", "--json"},
}
"""What the interface promises of the commands in this release."""


def _leaves(command: Any, path: str = "", parent: Any = None) -> Iterator[tuple[str, Any, str]]:
    with command.make_context(command.name, [], parent, resilient_parsing=True) as context:
        if not hasattr(command, "list_commands"):
            yield path, command, command.get_help(context)
            return
        for name in command.list_commands(context):
            yield from _leaves(command.get_command(context, name), f"{path} {name}".strip(), context)


def _names(command: Any) -> set[str]:
    return {name for param in command.params for name in param.opts}


@pytest.fixture(scope="module")
def leaves() -> dict[str, tuple[Any, str]]:
    return {path: (command, text) for path, command, text in _leaves(root())}


def test_every_promised_command_is_there(leaves: dict[str, tuple[Any, str]]) -> None:
    assert set(PROMISED) - set(leaves) == set()


@pytest.mark.parametrize("path", PROMISED)
def test_every_promised_option_is_there(leaves: dict[str, tuple[Any, str]], path: str) -> None:
    command, _ = leaves[path]
    assert PROMISED[path] - _names(command) == set()


def test_every_command_has_a_help_with_an_example(leaves: dict[str, tuple[Any, str]]) -> None:
    for path, (command, text) in leaves.items():
        assert command.help, path
        assert f"agent-gate {path}" in text.partition("Examples:")[2], path


def _lists(command: Any, parent: Any = None) -> Iterator[str]:
    """The help of everything that has commands below it, at the width of a terminal that nobody has widened."""
    with command.make_context(command.name, [], parent, resilient_parsing=True, terminal_width=80) as context:
        if hasattr(command, "list_commands"):
            yield command.get_help(context)
            for name in command.list_commands(context):
                yield from _lists(command.get_command(context, name), context)


def test_no_list_of_commands_breaks_off_in_the_middle_of_a_sentence() -> None:
    lists = list(_lists(root()))
    assert len(lists) > 1
    assert [line for text in lists for line in text.splitlines() if line.endswith("...") and "Usage" not in line] == []


def test_every_command_speaks_json(leaves: dict[str, tuple[Any, str]]) -> None:
    assert [path for path, (command, _) in leaves.items() if "--json" not in _names(command)] == []


def test_every_option_says_what_it_is_for(leaves: dict[str, tuple[Any, str]]) -> None:
    silent = [(path, param.name) for path, (command, _) in leaves.items() for param in command.params if not param.help]
    assert silent == []


def test_every_command_stands_in_one_section() -> None:
    assert sorted(name for names in SECTIONS.values() for name in names) == sorted(COMMANDS)


def test_the_catalogue_says_of_each_command_what_the_command_says_of_itself() -> None:
    tree: Any = root()
    with tree.make_context("agent-gate", [], resilient_parsing=True) as context:
        said = {name: tree.get_command(context, name).get_short_help_str(90) for name in COMMANDS}
    assert {name: entry.summary for name, entry in COMMANDS.items()} == said


def test_help_imports_no_command() -> None:
    program = (
        "import sys; from agent_gate.doors.cli.program import run; run(['--help']);"
        "print(*(name for name in sys.modules if name.startswith('agent_gate.')), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    commands = {f"agent_gate.doors.cli.{entry.module}" for entry in COMMANDS.values()}
    assert commands & set(done.stderr.split()) == set()


def test_the_reference_says_what_the_commands_say() -> None:
    program = ROOT / "docs" / "reference" / "commands.py"
    page = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True).stdout
    stored = (ROOT / "docs" / "reference" / "commands.md").read_text()
    assert page == stored, "run: python docs/reference/commands.py > docs/reference/commands.md"

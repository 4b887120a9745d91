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

ROOT = Path(__file__).resolve().parents[3]

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


@pytest.fixture(scope="module")
def leaves() -> dict[str, tuple[Any, str]]:
    return {path: (command, text) for path, command, text in _leaves(root())}


def test_every_promised_command_is_there(leaves: dict[str, tuple[Any, str]]) -> None:
    assert set(leaves) == set(PROMISED)


@pytest.mark.parametrize("path", PROMISED)
def test_every_promised_option_is_there(leaves: dict[str, tuple[Any, str]], path: str) -> None:
    command, _ = leaves[path]
    assert PROMISED[path] - {name for param in command.params for name in param.opts} == set()


@pytest.mark.parametrize("path", PROMISED)
def test_every_command_has_a_help_with_an_example(leaves: dict[str, tuple[Any, str]], path: str) -> None:
    command, text = leaves[path]
    assert command.help
    assert f"agent-gate {path}" in text.partition("Examples:")[2]


@pytest.mark.parametrize("path", PROMISED)
def test_every_option_says_what_it_is_for(leaves: dict[str, tuple[Any, str]], path: str) -> None:
    command, _ = leaves[path]
    assert [param.name for param in command.params if not param.help] == []


def test_every_command_stands_in_one_section() -> None:
    assert sorted(name for names in SECTIONS.values() for name in names) == sorted(COMMANDS)


def test_the_reference_says_what_the_commands_say() -> None:
    program = ROOT / "docs" / "reference" / "commands.py"
    page = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True).stdout
    assert page == (ROOT / "docs" / "reference" / "commands.md").read_text(), f"run: python {program} > commands.md"

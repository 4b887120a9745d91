"""Tests that bad input of any kind gets one line with a code, and changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent_gate import open_gate
from agent_gate.doors.cli.program import run
from tests.unit.doors.cli.conftest import Command

LOOKING = [
    ["audit"],
    ["verify"],
    ["export"],
    ["state", "show"],
    ["state", "history"],
    ["state", "diff"],
    ["state", "revert", "x", "-p", "policy.yaml"],
    ["project", "list"],
    ["project", "create", "x"],
    ["project", "archive", "x"],
    ["project", "lock", "x"],
    ["project", "unlock", "x"],
    ["db", "upgrade"],
    ["db", "backup", "target.db"],
    ["db", "erase", "x", "--yes"],
    ["db", "retain", "--days", "1", "--yes"],
    ["owner", "set", "x"],
    ["owner", "list"],
    ["owner", "unset", "x"],
]


@pytest.mark.parametrize("words", LOOKING, ids=" ".join)
def test_no_command_makes_a_database_that_is_missing(command: Command, words: list[str], tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text("rules: []")
    said = command(*words)
    assert (said.code, said.out, said.err.count("\n")) == (5, "", 1)
    assert said.err.startswith("agent-gate: storage_connect: ")
    assert command(*words, "--json").json["error"]["code"] == 5001
    assert [path.name for path in tmp_path.iterdir()] == ["policy.yaml"]


@pytest.mark.parametrize(
    "db", ["postgresql://user:secret@host/gate", "postgres://h/g", ".", "policy.yaml", "empty", ""]
)
@pytest.mark.parametrize("words", [["audit"], ["project", "create", "x"], ["db", "upgrade"], ["db", "backup", "t.db"]])
def test_what_is_no_ledger_is_refused_and_left_alone(
    command: Command, words: list[str], db: str, tmp_path: Path
) -> None:
    (tmp_path / "policy.yaml").write_text("rules: []")
    (tmp_path / "empty").touch()
    said = command(*words, "--db", db)
    assert said.code == 5 or (said.code, words, db) == (0, ["db", "upgrade"], "empty")
    assert "secret" not in said.err
    assert (tmp_path / "policy.yaml").read_text() == "rules: []"


@pytest.fixture(scope="module")
def worked_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a policy, a ledger of two calls, and files that are not what they should be."""
    directory = tmp_path_factory.mktemp("worked-in")
    assert run(["init", str(directory)]) == 0
    (directory / "binary.yaml").write_bytes(bytes(range(256)))
    (directory / "empty.yaml").touch()
    (directory / "endless.yaml").symlink_to("endless.yaml")

    async def calls() -> None:
        async with open_gate(directory / "policy.yaml", directory / "agent-gate.db") as gate:
            await gate.call("state.set", path="/notes/a", value=1)
            await gate.call("state.set", path="/notes/a", value=2)

    asyncio.run(calls())
    return directory


@pytest.fixture
def ledger(command: Command, worked_in: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(worked_in)
    return worked_in / "agent-gate.db"


BAD = [
    ["nonsense"],
    ["--nonsense"],
    ["state", "nonsense"],
    ["audit", "--limit", "0"],
    ["audit", "--limit", "-1"],
    ["audit", "--limit", "many"],
    ["audit", "--status", "wild"],
    ["audit", "--since", "yesterday"],
    ["audit", "--since", ""],
    ["audit", "surplus"],
    ["verify", "--anchor", "missing"],
    ["verify", "no-such-run"],
    ["export", "--format", "xml"],
    ["export", "--output", "."],
    ["export", "--output", "missing/file"],
    ["state", "show", "--version", "-1"],
    ["state", "show", "--version", "99"],
    ["state", "show", "--version", "1", "--snapshot", "x"],
    ["state", "show", "--snapshot", "x"],
    ["state", "show", "--project", "missing"],
    ["state", "diff", "99999999999999999999", "1"],
    ["state", "diff", "\u00b2", "1"],
    ["state", "diff", "--", "-1", "1"],
    ["state", "revert", "x", "-p", "missing.yaml"],
    ["state", "revert", "x", "-p", "."],
    ["state", "revert", "x", "-p", "binary.yaml"],
    ["project", "create", ""],
    ["project", "create", "Übergröße"],
    ["project", "create", "_gate"],
    ["project", "lock", "missing"],
    ["project", "archive", "default"],
    ["project", "create", "x", "--initial-state", "binary.yaml"],
    ["project", "create", "x", "--initial-state", '{"a": NaN}'],
    ["project", "create", "x", "--state-schema", '{"type": 7}'],
    ["project", "create", "x", "--state-schema", '{"$ref": "http://example.com/"}'],
    ["db", "retain"],
    ["db", "retain", "--days", "-1", "--yes"],
    ["db", "retain", "--days", "nan", "--yes"],
    ["db", "retain", "--days", "inf", "--yes"],
    ["db", "backup", "missing/target.db"],
    ["db", "backup", "."],
    ["check", "--tool", "x", "-p", "missing.yaml"],
    ["check", "--tool", "x", "-p", "."],
    ["check", "--tool", "x", "-p", "binary.yaml"],
    ["check", "--tool", "x", "-p", "empty.yaml"],
    ["check", "--tool", "x", "-p", "endless.yaml"],
    ["check", "--calls", "binary.yaml"],
    ["check", "--calls", "."],
    ["init", "binary.yaml"],
    ["demo", "--twice"],
    ["doctor", "surplus"],
]


@pytest.mark.parametrize("words", BAD, ids=lambda words: " ".join(words)[:60])
def test_bad_input_gets_one_line_and_changes_nothing(command: Command, words: Sequence[str], ledger: Path) -> None:
    before = command("export").out
    said = command(*words)
    assert said.code in (1, 2, 3, 5)
    if said.out:
        assert words[:2] == ["check", "--calls"]
    else:
        assert said.err.startswith("agent-gate: ")
        assert said.err.count("\n") == 1
    assert command("export").out == before


@pytest.mark.parametrize("words", BAD, ids=lambda words: " ".join(words)[:60])
def test_bad_input_is_an_object_for_machines(command: Command, words: Sequence[str], ledger: Path) -> None:
    place = words.index("--") if "--" in words else len(words)
    said = command(*words[:place], "--json", *words[place:])
    for answer in said.json_lines:
        assert {"name", "detail"} <= answer["error"].keys()
    assert said.out


def test_an_argument_of_any_length_is_borne(command: Command, ledger: Path) -> None:
    said = command("state", "revert", "x" * 100_000, "-p", "policy.yaml")
    assert said.code in (1, 3)
    assert command("verify").code == 0


@pytest.mark.parametrize("words", [[], ["state"], ["project"], ["db"]])
def test_a_group_of_commands_says_what_it_can_do(command: Command, words: list[str]) -> None:
    said = command(*words)
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith(" ".join(["Usage: agent-gate", *words]))

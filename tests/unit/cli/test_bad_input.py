"""Tests that bad input of any kind gets one line with a code, and changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent_gate import open_gate
from tests.unit.cli.conftest import Command

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
]


@pytest.mark.parametrize("words", LOOKING, ids=" ".join)
def test_no_command_makes_a_database_that_is_missing(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text("rules: []")
    done = run(tmp_path, *words)
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (5, b"", 1)
    assert done.stderr.startswith(b"agent-gate: storage_connect: ")
    assert json.loads(run(tmp_path, *words, "--json").stdout)["error"]["code"] == 5001
    assert [path.name for path in tmp_path.iterdir()] == ["policy.yaml"]


@pytest.mark.parametrize(
    "db", ["postgresql://user:secret@host/gate", "postgres://h/g", ".", "policy.yaml", "empty", ""]
)
@pytest.mark.parametrize("words", [["audit"], ["project", "create", "x"], ["db", "upgrade"], ["db", "backup", "t.db"]])
def test_what_is_no_ledger_is_refused_and_left_alone(words: list[str], db: str, tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text("rules: []")
    (tmp_path / "empty").touch()
    done = run(tmp_path, *words, "--db", db)
    assert done.returncode == 5 or (done.returncode, words) == (0, ["db", "upgrade"])
    assert b"secret" not in done.stderr
    assert (tmp_path / "policy.yaml").read_text() == "rules: []"


BAD = [
    [],
    ["nonsense"],
    ["--nonsense"],
    ["state"],
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
    ["db"],
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
def test_bad_input_gets_one_line_and_changes_nothing(words: Sequence[str], worked_in: Path) -> None:
    before = run(worked_in, "project", "list").stdout
    done = run(worked_in, *words)
    assert done.returncode in (1, 2, 3, 5)
    assert done.stderr.count(b"\n") == 1 or done.stdout
    if done.stderr:
        assert done.stderr.startswith(b"agent-gate: ")
    assert run(worked_in, "project", "list").stdout == before



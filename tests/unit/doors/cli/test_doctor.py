"""Tests of `doctor`: each thing that can be wrong with a ledger has a row that says so."""

from __future__ import annotations

import asyncio
import fcntl
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent_gate.ledger.sqlite import diagnosis
from agent_gate.ledger.sqlite.migrate import HEAD
from agent_gate.sandbox import choice
from agent_gate.sandbox.choice import Offer
from agent_gate.sandbox.supervised import Sandlock
from tests.unit.doors.cli.conftest import Command


@pytest.fixture
def ledger(command: Command, tmp_path: Path) -> Path:
    command("init")
    command("project", "create", "home")
    return tmp_path / "agent-gate.db"


def _rows(command: Command) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in command("doctor", "--json").json["checks"]}


def test_a_sound_ledger_has_nothing_to_complain_of(command: Command, ledger: Path) -> None:
    rows = _rows(command)
    names = ("database", "schema", "permissions", "anchor", "processes", "open work", "questions")
    assert [rows[name]["status"] for name in names] == ["ok"] * 7


def test_every_warning_comes_with_advice(command: Command, ledger: Path) -> None:
    assert [name for name, row in _rows(command).items() if row["status"] != "ok" and "advice" not in row] == []


def _machine(monkeypatch: pytest.MonkeyPatch, *offers: Offer) -> None:
    async def probe() -> list[Offer]:
        return list(offers)

    monkeypatch.setattr(choice, "probe", probe)


def test_the_sandbox_that_commands_would_run_in_is_named(command: Command) -> None:
    rows = _rows(command)
    tried = {name: rows[name]["status"] for name in ("bubblewrap", "sandlock", "process bound")}
    assert tried == dict.fromkeys(tried, "ok")
    assert rows["shell.run"]["found"] in ("commands run in bubblewrap", "commands run in sandlock")


def test_the_preview_of_commands_is_tried(command: Command) -> None:
    picked = asyncio.run(choice.Choice().pick("auto"))
    expected = "ok" if picked is not None and picked.layers else "warn"
    assert _rows(command)["layers"]["status"] == expected


def test_a_sandbox_that_is_missing_is_no_worry_where_another_works(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    _machine(monkeypatch, Offer("bubblewrap", True, "bwrap", sandbox=Sandlock()), Offer("sandlock", False, "none", "x"))
    assert (_rows(command)["sandlock"]["status"], _rows(command)["shell.run"]["status"]) == ("ok", "ok")


def test_a_machine_without_a_sandbox_is_told_that_commands_are_refused(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    _machine(monkeypatch, Offer("bubblewrap", False, "not found", "install it"), Offer("process bound", True, "fine"))
    rows = _rows(command)
    assert rows["bubblewrap"] == {"name": "bubblewrap", "status": "warn", "found": "not found", "advice": "install it"}
    assert (rows["shell.run"]["status"], "sandbox: off" in rows["shell.run"]["advice"]) == ("warn", True)


@pytest.mark.parametrize(
    "name", ["agent-gate.db", "agent-gate.db.anchor", "agent-gate.db.d", "agent-gate.db.d/secret.key"]
)
def test_files_that_others_can_read_are_a_failure(command: Command, ledger: Path, name: str) -> None:
    (ledger.parent / name).chmod(0o755)
    assert (_rows(command)["permissions"]["status"], command("doctor").code) == ("fail", 3)


def test_a_database_of_something_else_is_a_failure(command: Command, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "agent-gate.db")) as connection:
        connection.execute("CREATE TABLE x (y)")
    assert _rows(command)["schema"]["status"] == "fail"


@pytest.mark.parametrize("content", [b"", b"text" * 1000, b"SQLite format 3\0" + bytes(200)])
def test_a_file_that_is_no_database_is_a_failure(command: Command, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "agent-gate.db").write_bytes(content)
    assert command("doctor").code == 3
    assert (tmp_path / "agent-gate.db").read_bytes() == content


@pytest.mark.parametrize(("version", "status"), [("0002", "warn"), ("9999", "fail")])
def test_a_schema_of_another_release_is_told(command: Command, ledger: Path, version: str, status: str) -> None:
    with closing(sqlite3.connect(ledger)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = ? WHERE version_num = ?", (version, HEAD))
        connection.commit()
    assert _rows(command)["schema"]["status"] == status


def test_a_tail_that_was_cut_off_is_a_failure(command: Command, ledger: Path) -> None:
    with closing(sqlite3.connect(ledger)) as connection:
        connection.execute("DELETE FROM entries WHERE project = 'home'")
        connection.commit()
    assert _rows(command)["anchor"]["status"] == "fail"


@pytest.mark.parametrize("name", ["agent-gate.db.anchor", "agent-gate.db.d/anchor.key"])
def test_an_anchor_or_key_that_is_gone_is_a_failure_and_not_replaced(command: Command, ledger: Path, name: str) -> None:
    (ledger.parent / name).unlink()
    assert _rows(command)["anchor"]["status"] == "fail"
    assert not (ledger.parent / name).exists()


def test_processes_at_work_are_counted(command: Command, ledger: Path) -> None:
    directory = ledger.with_name("agent-gate.db.d")
    (directory / "GONE.lock").touch(0o600)
    descriptor = os.open(directory / "ALIVE.lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    assert _rows(command)["processes"]["found"] == "1 at work, and 1 that ended without a word"
    os.close(descriptor)


def test_a_writer_lock_that_is_held_for_long_is_told(
    command: Command, ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diagnosis, "LOCK_WAIT_S", 0.0)
    descriptor = os.open(ledger.with_name("agent-gate.db.d") / "writer.lock", os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    assert _rows(command)["processes"]["status"] == "warn"
    os.close(descriptor)


def test_a_configuration_that_is_there_is_looked_at_with_its_chains(command: Command, ledger: Path) -> None:
    assert _rows(command)["config"]["status"] == "ok"
    config = ledger.parent / "config.yaml"
    text = config.read_text()
    config.write_text(f"{text}\nchains: {{api: [{{name: ip_allow, metadata: {{allow: [127.0.0.1]}}}}]}}\n")
    assert _rows(command)["config"]["found"].endswith("chains api")
    config.write_text(f"{text}\nchains: {{api: [{{name: api_keys}}]}}\n")
    row = _rows(command)["config"]
    assert row["status"] == "fail"
    assert "chains.api[0].name: no policy is called `api_keys`" in row["found"]


def test_a_configuration_is_not_needed(command: Command, ledger: Path) -> None:
    (ledger.parent / "config.yaml").unlink()
    assert "config" not in _rows(command)
    told = command("doctor", "-c", "missing.yaml", "--json").json["checks"]
    assert [row["status"] for row in told if row["name"] == "config"] == ["fail"]

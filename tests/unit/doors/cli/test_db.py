"""Tests of `db`: what retaining forgets beside the calls is told."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from tests.unit.doors.cli.conftest import Command


def test_retaining_tells_how_much_of_a_home_was_forgotten(command: Command, tmp_path: Path) -> None:
    command("init")
    with closing(sqlite3.connect(tmp_path / "agent-gate.db", isolation_level=None)) as connection:
        for name, captured_at in (("a", "2020"), ("b", "2020"), ("c", "9999")):
            connection.execute("INSERT INTO ha_entity_snapshot VALUES (?, 'on', '{}', 'x', ?)", (name, captured_at))
    said = command("db", "retain", "--days", "30", "--yes")
    assert said.out.splitlines() == ["0 calls erased, 0 entries in all", "2 entities of the home forgotten"]
    assert command("db", "retain", "--days", "30", "--yes", "--json").json["entities"] == 0

"""A reader opens what is a ledger of this release, and leaves everything else as it is."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from agent_gate.ledger.sqlite.ledger import SqliteLedger
from agent_gate.ledger.sqlite.migrate import HEADS, named
from agent_gate.ledger.sqlite.reader import open_reader
from agent_gate.model.errors import StorageError
from agent_gate.system.clock import RandomIds, SystemClock


def make_ledger(path: Path) -> None:
    async def open_and_close() -> None:
        await SqliteLedger(path, SystemClock(), RandomIds()).close()

    asyncio.run(open_and_close())


def change(path: Path, sql: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(sql)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda path: None, "there is no ledger at"),
        (lambda path: path.mkdir(), "there is no ledger at"),
        (lambda path: path.write_bytes(b""), "is not a ledger of agent-gate"),
        (lambda path: path.write_bytes(b"something else" * 1000), "cannot open"),
        (lambda path: change(path, "CREATE TABLE other (x)"), "is not a ledger of agent-gate"),
    ],
)
def test_what_is_no_ledger_is_refused_and_left_alone(tmp_path: Path, make: Callable[[Path], object], told: str) -> None:
    path = tmp_path / "a.db"
    make(path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(StorageError) as refused:
        open_reader(path)
    assert (refused.value.code, told in str(refused.value)) == (5001, True)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("sql", "found", "remedy"),
    [
        (
            "UPDATE alembic_version SET version_num = '9999' WHERE version_num = '0005'",
            "9999, home_assistant_0002",
            "upgrade agent-gate",
        ),
        (
            "INSERT INTO alembic_version VALUES ('lamps_0001')",
            "0005, home_assistant_0002, lamps_0001",
            "upgrade agent-gate",
        ),
        (
            "UPDATE alembic_version SET version_num = '0002' WHERE version_num = '0005'",
            "0002, home_assistant_0002",
            "db upgrade",
        ),
        ("DELETE FROM alembic_version WHERE version_num = 'home_assistant_0002'", "0005", "db upgrade"),
    ],
)
def test_another_release_is_named_with_its_remedy(tmp_path: Path, sql: str, found: str, remedy: str) -> None:
    make_ledger(tmp_path / "a.db")
    change(tmp_path / "a.db", sql)
    with pytest.raises(StorageError) as refused:
        open_reader(tmp_path / "a.db")
    assert refused.value.code == 5001
    assert f"({found}, ours is {named(HEADS)})" in str(refused.value)
    assert remedy in str(refused.value)


def test_a_reader_cannot_write(tmp_path: Path) -> None:
    make_ledger(tmp_path / "a.db")
    with closing(open_reader(tmp_path / "a.db")) as reader, pytest.raises(sqlite3.OperationalError, match="readonly"):
        reader.connection.execute("DELETE FROM heads")


def test_everything_within_one_moment_is_as_it_was_at_its_start(tmp_path: Path) -> None:
    make_ledger(tmp_path / "a.db")
    count = "SELECT count(*) FROM refusals"
    with closing(open_reader(tmp_path / "a.db")) as reader:
        with reader.one_moment():
            before = reader.row(count)
            with reader.one_moment():
                change(tmp_path / "a.db", "INSERT INTO refusals VALUES ('p', 's', 't', 'c')")
            assert reader.row(count) == before
        assert reader.row(count) == (before[0] + 1,)


def test_what_cannot_be_read_is_a_fault_with_a_code(tmp_path: Path) -> None:
    make_ledger(tmp_path / "a.db")
    with closing(open_reader(tmp_path / "a.db")) as reader, pytest.raises(StorageError) as fault:
        list(reader.rows("SELECT x FROM nowhere"))
    assert fault.value.code == 5003

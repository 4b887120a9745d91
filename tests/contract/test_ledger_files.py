"""What the ledger on SQLite promises of its files: who may read them, what is in them, and what it refuses to open."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from agent_gate.app import open_gate
from agent_gate.ledger.files import LedgerFiles
from agent_gate.ledger.sqlite.ledger import SqliteLedger
from agent_gate.model.approval import Approver
from agent_gate.model.bounds import ANCHOR_COMPACT_BYTES
from agent_gate.model.entry import Draft, Kind
from agent_gate.model.errors import StorageError
from agent_gate.model.moment import iso
from agent_gate.model.work import Work
from agent_gate.system.clock import RandomIds, SystemClock
from agent_gate.toolkit import tool, transition
from tests.faults.nursery import Nursery

MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3,6})?Z")
POLICY = {"rules": [{"pattern": "t.write*", "action": "allow"}, {"pattern": "t.count*", "action": "allow"}]}


@tool("t.write")
async def write(x: str) -> str:
    return x


@tool("t.ask")
async def ask(x: str) -> str:
    return x


@transition("t.count")
def count(inputs: dict[str, int], state: dict[str, int]) -> tuple[dict[str, int], str]:
    return {"n": state.get("n", 0) + 1}, "counted"


def ledger_at(path: Path) -> SqliteLedger:
    return SqliteLedger(path, SystemClock(), RandomIds())


async def a_ledger_with_a_past(path: Path) -> None:
    async with open_gate(POLICY, path, tools=[write, ask, count], approvers=[Approver("bob")]) as gate:
        await gate.call("t.write", x="a", request_id="r1")
        await gate.call("t.count")
        await gate.call("t.ask", x="b", wait=False)
        await gate.call("no.such.tool")


async def add_an_entry(path: Path) -> None:
    ledger = ledger_at(path)
    await ledger.commit(Work("default", (Draft(Kind.SETTLED, iso(1), b"{}"),)))
    await ledger.close()


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def modes(folder: Path) -> dict[str, str]:
    names = {
        re.sub(r"[0-9A-HJKMNP-TV-Z]{26}", "<instance>", str(path.relative_to(folder))): path
        for path in folder.rglob("*")
    }
    return {name: oct(path.stat().st_mode & 0o777) for name, path in sorted(names.items())}


async def test_every_file_is_the_owners_alone_even_under_an_open_umask(tmp_path: Path) -> None:
    with umask(0):
        async with open_gate(POLICY, tmp_path / "a.db", tools=[count]) as gate:
            await gate.call("t.count")
            seen = modes(tmp_path)
    assert seen == {
        "a.db": "0o600",
        "a.db-shm": "0o600",
        "a.db-wal": "0o600",
        "a.db.anchor": "0o600",
        "a.db.d": "0o700",
        "a.db.d/<instance>.lock": "0o600",
        "a.db.d/anchor.key": "0o600",
        "a.db.d/project-37a8eec1ce19687d.lock": "0o600",
        "a.db.d/project-37a8eec1ce19687d.next": "0o600",
        "a.db.d/secret.key": "0o600",
        "a.db.d/writer.lock": "0o600",
    }


async def test_files_that_somebody_widened_are_narrowed_again(tmp_path: Path) -> None:
    await a_ledger_with_a_past(tmp_path / "a.db")
    (tmp_path / "a.db.d").chmod(0o755)
    for path in (tmp_path / "a.db", tmp_path / "a.db.anchor", tmp_path / "a.db.d" / "writer.lock"):
        path.chmod(0o644)
    await ledger_at(tmp_path / "a.db").close()
    assert {mode for name, mode in modes(tmp_path).items() if name != "a.db.d"} == {"0o600"}
    assert modes(tmp_path)["a.db.d"] == "0o700"


async def test_a_compacted_anchor_is_the_owners_alone_and_says_the_same(tmp_path: Path) -> None:
    await a_ledger_with_a_past(tmp_path / "a.db")
    anchor = tmp_path / "a.db.anchor"
    lines = anchor.read_bytes()
    anchor.write_bytes(lines * (ANCHOR_COMPACT_BYTES // len(lines) + 1))
    with umask(0):
        await ledger_at(tmp_path / "a.db").close()
    assert (anchor.stat().st_size < 10_000, modes(tmp_path)["a.db.anchor"]) == (True, "0o600")
    await ledger_at(tmp_path / "a.db").close()


async def test_moments_are_iso_8601_in_utc_wherever_the_database_holds_one(tmp_path: Path) -> None:
    await a_ledger_with_a_past(tmp_path / "a.db")
    columns = [
        ("entries", "at"),
        ("heads", "created_at"),
        ("snapshots", "at"),
        ("pending_requests", "created_at"),
        ("pending_requests", "expires_at"),
        ("audit_log", "timestamp"),
        ("tool_calls", "created_at"),
        ("tool_results", "started_at"),
        ("tool_results", "ended_at"),
    ]
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        found = {
            (table, column): [row[0] for row in connection.execute(f"SELECT {column} FROM {table}")]
            for table, column in columns
        }
    assert all(found.values()), "each must have been tried"
    assert [moment for moments in found.values() for moment in moments if not MOMENT.fullmatch(moment)] == []


def test_the_documents_shapes_are_views_with_exactly_their_columns(tmp_path: Path) -> None:
    LedgerFiles(tmp_path / "a.db").create()
    make_a_ledger(tmp_path / "a.db")
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        views = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'view'")}
        columns = {name: [column[1] for column in connection.execute(f"PRAGMA table_info({name})")] for name in VIEWS}
    assert VIEWS.keys() <= views
    assert columns == VIEWS


VIEWS = {
    "audit_log": [
        "id",
        "request_id",
        "timestamp",
        "tool_name",
        "args",
        "signature",
        "decision",
        "resolution",
        "resolved_by",
        "resolved_at",
        "execution_result",
        "agent_id",
    ],
    "runs": [
        "run_id",
        "created_at",
        "completed_at",
        "plan_hash",
        "policy_hash",
        "plan_json",
        "policy_json",
        "mode",
        "status",
        "total_steps",
        "completed_steps",
        "denied_steps",
        "failed_steps",
    ],
    "ha_command_log": ["id", "domain", "service", "target", "data", "result", "context_id", "issued_at"],
    "tool_calls": ["call_id", "run_id", "step_index", "tool_name", "args_json", "created_at"],
    "tool_results": [
        "call_id",
        "run_id",
        "status",
        "output_json",
        "error",
        "policy_decision_json",
        "started_at",
        "ended_at",
        "input_hash",
        "output_hash",
    ],
}


def make_a_ledger(path: Path) -> None:
    asyncio.run(ledger_at(path).close())


def a_directory(path: Path) -> None:
    path.mkdir()


def no_database(path: Path) -> None:
    path.write_text("a letter to a friend\n" * 100)


def a_foreign_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE recipes (name)")


def a_database_of_another_that_uses_alembic(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            "CREATE TABLE alembic_version (version_num); INSERT INTO alembic_version VALUES ('0001');"
            "CREATE TABLE recipes (name)"
        )


def a_newer_ledger(path: Path) -> None:
    make_a_ledger(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999' WHERE version_num = '0005'")
        connection.commit()


@pytest.mark.parametrize(
    "make", [a_directory, no_database, a_foreign_database, a_database_of_another_that_uses_alembic, a_newer_ledger]
)
def test_what_is_not_a_ledger_of_ours_is_refused_and_left_as_it_was(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    path = tmp_path / "a.db"
    make(path)
    path.chmod(0o755)
    before = contents(tmp_path)
    with pytest.raises(StorageError) as refused:
        ledger_at(path)
    assert refused.value.code == 5001
    assert "\n" not in str(refused.value)
    assert contents(tmp_path) == before


def contents(folder: Path) -> dict[str, tuple[str, bytes]]:
    """Every file's mode and bytes; what SQLite keeps beside an open database does not count."""
    return {
        str(path.relative_to(folder)): (oct(path.stat().st_mode), path.read_bytes() if path.is_file() else b"")
        for path in sorted(folder.rglob("*"))
        if not path.name.endswith(("-shm", "-wal"))
    }


def test_a_file_in_a_directory_that_does_not_exist_is_a_coded_refusal(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot create") as refused:
        ledger_at(tmp_path / "nowhere" / "a.db")
    assert (refused.value.code, list(tmp_path.iterdir())) == (5001, [])


def test_an_unreadable_file_is_a_coded_refusal(tmp_path: Path) -> None:
    make_a_ledger(tmp_path / "a.db")
    (tmp_path / "a.db").chmod(0)
    with Nursery() as nursery:
        told = nursery.run("open_as_nobody", db=str(tmp_path / "a.db"))
    assert told == [{"refused": 5001}]


@pytest.mark.parametrize("key", ["anchor.key", "secret.key"])
def test_a_key_that_was_cut_short_is_an_integrity_error(tmp_path: Path, key: str) -> None:
    make_a_ledger(tmp_path / "a.db")
    (tmp_path / "a.db.d" / key).write_bytes(b"short")
    with pytest.raises(StorageError, match="is not a key") as refused:
        ledger_at(tmp_path / "a.db")
    assert refused.value.code == 5004


async def test_a_deleted_database_beside_a_surviving_anchor_is_refused_again_and_again(tmp_path: Path) -> None:
    await a_ledger_with_a_past(tmp_path / "a.db")
    (tmp_path / "a.db").unlink()
    codes = [refusal_of(tmp_path / "a.db") for _ in range(2)]
    assert codes == [5004, 5004]
    assert not (tmp_path / "a.db").exists()


async def test_a_database_that_was_rolled_back_is_refused(tmp_path: Path) -> None:
    await a_ledger_with_a_past(tmp_path / "a.db")
    shutil.copy(tmp_path / "a.db", tmp_path / "backup")
    await add_an_entry(tmp_path / "a.db")
    shutil.copy(tmp_path / "backup", tmp_path / "a.db")
    assert refusal_of(tmp_path / "a.db") == 5004


async def test_a_database_with_another_past_is_refused(tmp_path: Path) -> None:
    await a_ledger_with_a_past(tmp_path / "a.db")
    await a_ledger_with_a_past(tmp_path / "other.db")
    shutil.copy(tmp_path / "other.db", tmp_path / "a.db")
    assert refusal_of(tmp_path / "a.db") == 5004


async def test_an_anchor_that_somebody_else_wrote_is_refused(tmp_path: Path) -> None:
    await a_ledger_with_a_past(tmp_path / "a.db")
    await a_ledger_with_a_past(tmp_path / "other.db")
    shutil.copy(tmp_path / "other.db.anchor", tmp_path / "a.db.anchor")
    assert refusal_of(tmp_path / "a.db") == 5004


def refusal_of(path: Path) -> int:
    with pytest.raises(StorageError) as refused:
        ledger_at(path)
    return refused.value.code


async def test_refusals_do_not_leak_descriptors(tmp_path: Path) -> None:
    await a_ledger_with_a_past(tmp_path / "a.db")
    (tmp_path / "a.db.anchor").write_bytes(b"forged\n")
    refusal_of(tmp_path / "a.db")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        refusal_of(tmp_path / "a.db")
    assert len(os.listdir("/proc/self/fd")) == before


async def test_locks_of_processes_that_are_gone_are_swept_away(tmp_path: Path) -> None:
    keeper = ledger_at(tmp_path / "a.db")
    for number in range(3):
        (tmp_path / "a.db.d" / f"{number:026}.lock").touch()
    await ledger_at(tmp_path / "a.db").close()
    left = sorted(path.name for path in keeper.files.instance_locks())
    await keeper.close()
    assert left == [f"{keeper.instance}.lock"]

"""Whatever is done to a ledger behind the gate's back is found: by the chain, by what it names, or by the anchor."""

from __future__ import annotations

import asyncio
import random
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from agent_gate.history.findings import Report
from agent_gate.history.verify import examine, verify
from agent_gate.ledger import anchor
from agent_gate.ledger.chain import GENESIS, header_bytes, link
from agent_gate.ledger.files import LedgerFiles
from agent_gate.ledger.sqlite.backup import backup
from agent_gate.ledger.sqlite.ledger import SqliteLedger
from agent_gate.ledger.sqlite.reader import SqliteReader
from agent_gate.ledger.sqlite.rows import ENTRY_COLUMNS
from agent_gate.model.errors import StorageError
from agent_gate.ports.examining import Anchored
from agent_gate.system.clock import RandomIds
from tests.unit.history.made import Made, SteppingClock, gate_at, make_ledger

COLUMNS = ENTRY_COLUMNS.split(", ")
LOOSE_INDEXES = ("entries_chain", "entries_grant", "entries_totals")
"""They take no doubles, and no bodies that are not JSON."""
Row = tuple[Any, ...]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return asyncio.run(make_ledger(tmp_path_factory.mktemp("ledger") / "a.db"))


@pytest.fixture(scope="module")
def anchored(made: Made) -> Anchored:
    files = LedgerFiles(made.db)
    return anchor.examine(files, files.anchor)


@pytest.fixture(scope="module")
def database(made: Made) -> Iterator[sqlite3.Connection]:
    """A copy in memory whose entries may hold anything: an attacker is not bound by constraints."""
    with closing(sqlite3.connect(made.db)) as source, closing(sqlite3.connect(":memory:")) as copy:
        source.backup(copy)
        copy.isolation_level = None
        for index in LOOSE_INDEXES:
            copy.execute(f"DROP INDEX {index}")
        copy.execute("PRAGMA writable_schema = ON")
        copy.execute("UPDATE sqlite_master SET sql = replace(sql, ' NOT NULL', '') WHERE name = 'entries'")
        copy.execute("PRAGMA writable_schema = RESET")
        yield copy


@contextmanager
def undone(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("SAVEPOINT tamper")
    try:
        yield
    finally:
        connection.execute("ROLLBACK TO tamper")
        connection.execute("RELEASE tamper")


def rows_of(connection: sqlite3.Connection) -> list[Row]:
    return connection.execute(f"SELECT id, {ENTRY_COLUMNS} FROM entries ORDER BY id").fetchall()


def flipped(data: bytes, place: int) -> bytes:
    changed = bytearray(data)
    changed[place] ^= 1
    return bytes(changed)


def others(value: Any) -> list[Any]:
    """What an attacker may put in place of a value: one bit or character off, longer, shorter, of another type."""
    match value:
        case int():
            return [value + 1, value - 1, 0, -value, value + 1000, value + 0.5, "many", None, b"\x01"]
        case bytes():
            return [flipped(value, 0), flipped(value, len(value) // 2), flipped(value, -1), value[:-1], value + b"\0",
                    b"", value.hex(), bytes(32), None, 7]  # fmt: skip
        case str():
            place = len(value) // 2
            return [value[:place] + chr(ord(value[place]) ^ 1) + value[place + 1 :], value[:-1], value[1:], value + " ",
                    value + "\0", value + "\n", value.swapcase(), "", None, value.encode(), 7]  # fmt: skip
        case _:
            return ["", "x", b"", 0]


LOOSENED = (
    *(f"the index `{index}` is gone" for index in LOOSE_INDEXES),
    "the table `entries` is not the one that agent-gate makes",
)


def examined(database: sqlite3.Connection, anchored: Anchored, run_id: str | None = None) -> Report:
    """What is found besides the constraints that the attacker did away with."""
    report = examine(SqliteReader(database), anchored, run_id)
    problems = tuple(finding for finding in report.problems if finding.what not in LOOSENED)
    assert len(report.problems) - len(problems) == len(LOOSENED) or "entries" not in tables_of(database)
    return replace(report, ok=not problems, problems=problems)


def tables_of(database: sqlite3.Connection) -> set[str]:
    return {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def found(report: Report) -> bool:
    return not report.ok and bool(report.problems)


def test_an_untouched_ledger_verifies(made: Made, database: sqlite3.Connection, anchored: Anchored) -> None:
    in_memory, on_disk = examined(database, anchored), verify(made.db)
    assert in_memory == on_disk
    assert (on_disk.ok, on_disk.anchor, on_disk.unanchored, on_disk.erased) == (True, "ok", {}, 2)
    assert on_disk.entries >= 35


@pytest.mark.parametrize("column", COLUMNS)
def test_a_change_of_any_row_in_this_column_is_found(
    database: sqlite3.Connection, anchored: Anchored, column: str
) -> None:
    missed = []
    for row in rows_of(database):
        value = row[1 + COLUMNS.index(column)]
        for other in others(value):
            if type(other) is type(value) and other == value:
                continue
            with undone(database):
                database.execute(f"UPDATE entries SET {column} = ? WHERE id = ?", (other, row[0]))
                stored = database.execute(f"SELECT {column} FROM entries WHERE id = ?", (row[0],)).fetchone()[0]
                if (type(stored), stored) != (type(value), value) and not found(examined(database, anchored)):
                    missed.append((row[0], value, other))
    assert missed == []


def test_the_removal_of_any_row_is_found(database: sqlite3.Connection, anchored: Anchored) -> None:
    missed = []
    for row in rows_of(database):
        with undone(database):
            database.execute("DELETE FROM entries WHERE id = ?", (row[0],))
            if not found(examined(database, anchored)):
                missed.append(row[0])
    assert missed == []


def test_the_doubling_of_any_row_is_found(database: sqlite3.Connection, anchored: Anchored) -> None:
    missed = []
    for row in rows_of(database):
        with undone(database):
            marks = ", ".join("?" * len(COLUMNS))
            database.execute(f"INSERT INTO entries ({ENTRY_COLUMNS}) VALUES ({marks})", row[1:])
            if not found(examined(database, anchored)):
                missed.append(row[0])
    assert missed == []


@pytest.mark.parametrize("columns", [["seq"], ["body"], ["hash"], ["prev_hash"], ["at"], COLUMNS, COLUMNS[2:]])
def test_an_exchange_between_neighbours_is_found(
    database: sqlite3.Connection, anchored: Anchored, columns: list[str]
) -> None:
    missed = []
    rows = rows_of(database)
    places = [1 + COLUMNS.index(column) for column in columns]
    settings = ", ".join(f"{column} = ?" for column in columns)
    for one, other in pairwise(rows):
        if all(one[place] == other[place] for place in places):
            continue
        if one[1] != other[1] and columns == COLUMNS:
            continue  # two chains may stand in the table in either order
        with undone(database):
            for target, source in ((one, other), (other, one)):
                database.execute(
                    f"UPDATE entries SET {settings} WHERE id = ?", [*(source[place] for place in places), target[0]]
                )
            if not found(examined(database, anchored)):
                missed.append((one[0], other[0]))
    assert missed == []


def mend_heads(database: sqlite3.Connection) -> None:
    """What an attacker would do after cutting chains: make every head agree with what is left."""
    database.execute("UPDATE heads SET seq = 0, hash = zeroblob(32), state_version = 0, snapshot_id = NULL")
    for project, seq, hash in database.execute(
        "SELECT project, max(seq), hash FROM entries GROUP BY project"
    ).fetchall():
        database.execute("UPDATE heads SET seq = ?, hash = ? WHERE project = ?", (seq, hash, project))
    for project, version, snapshot_id in database.execute(
        "SELECT e.project, max(s.version), s.snapshot_id FROM snapshots s JOIN entries e USING (call_id)"
        " WHERE e.kind = 'settled' GROUP BY e.project"
    ).fetchall():
        database.execute(
            "UPDATE heads SET state_version = ?, snapshot_id = ? WHERE project = ?", (version, snapshot_id, project)
        )


def test_a_tail_that_is_cut_off_by_any_length_is_found_by_the_anchor(
    database: sqlite3.Connection, anchored: Anchored
) -> None:
    rows = rows_of(database)
    for length in range(1, len(rows) + 1):
        with undone(database):
            database.execute("DELETE FROM entries WHERE id >= ?", (rows[-length][0],))
            assert found(examined(database, anchored))
            mend_heads(database)
            report = examined(database, anchored)
            assert any("cut short" in finding.what for finding in report.problems), length


def rehash(database: sqlite3.Connection) -> None:
    """Compute every chain anew from whatever the rows hold now."""
    heads: dict[str, bytes] = {}
    for row in rows_of(database):
        fields = dict(zip(["id", *COLUMNS], row, strict=True))
        header = header_bytes(**{
            name: fields[name]
            for name in ("project", "seq", "at", "kind", "run_id", "call_id", "request_id", "agent_id", "tool",
                         "status", "body_hash")
        })  # fmt: skip
        before = heads.get(fields["project"], GENESIS)
        heads[fields["project"]] = link(before, header)
        database.execute(
            "UPDATE entries SET prev_hash = ?, hash = ? WHERE id = ?", (before, heads[fields["project"]], fields["id"])
        )
    for project, hash in heads.items():
        database.execute("UPDATE heads SET hash = ? WHERE project = ?", (hash, project))


def test_a_chain_that_is_hashed_anew_from_any_row_is_found_by_the_anchor(
    database: sqlite3.Connection, anchored: Anchored
) -> None:
    for row in rows_of(database):
        with undone(database):
            database.execute("UPDATE entries SET tool = 'another' WHERE id = ?", (row[0],))
            rehash(database)
            report = examined(database, anchored)
            assert [finding.what for finding in report.problems] == ["it is not the entry that was anchored"], row[0]
            assert examined(database, Anchored("ok")).ok, "without an anchor such a chain looks perfect"


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE entries",
        "DELETE FROM entries",
        "DROP TABLE heads",
        "DELETE FROM heads",
        "DELETE FROM heads WHERE project = 'home'",
        "UPDATE heads SET seq = seq + 1 WHERE project = 'default'",
        "UPDATE heads SET hash = zeroblob(32) WHERE project = 'default'",
        "UPDATE heads SET status = 'archived' WHERE project = 'home'",
        "UPDATE heads SET initial_state = '{}' WHERE project = 'home'",
        "UPDATE heads SET state_schema = NULL WHERE project = 'home'",
        "UPDATE heads SET state_version = 1 WHERE project = 'default'",
        "UPDATE heads SET state_version = 99 WHERE project = 'default'",
        "UPDATE heads SET snapshot_id = (SELECT min(snapshot_id) FROM snapshots) WHERE project = 'default'",
        "INSERT INTO heads VALUES ('ghost', 3, zeroblob(32), 0, NULL, 'open', '', NULL, NULL)",
        "DROP TABLE snapshots",
        "DELETE FROM snapshots WHERE version = 2",
        "UPDATE snapshots SET version = version + 10",
        "UPDATE snapshots SET call_id = 'x' WHERE version = 1",
        "UPDATE snapshots SET document = (SELECT max(document) FROM snapshots)",
        "DROP TABLE blobs",
        "DELETE FROM blobs",
        "DELETE FROM blobs WHERE hash LIKE 'output:%'",
        "UPDATE blobs SET data = x'7b7d'",
        "UPDATE blobs SET data = CAST(data AS TEXT) WHERE hash NOT LIKE 'output:%'",
        "UPDATE blobs SET data = x'22' WHERE hash LIKE 'output:%'",
        "INSERT INTO blobs VALUES ('output:nobody', x'22')",
        "INSERT INTO blobs VALUES ('anything', x'22')",
        "CREATE TRIGGER hide AFTER INSERT ON entries BEGIN DELETE FROM entries WHERE tool = 'door.open'; END",
        "UPDATE entries SET body = NULL, signature = NULL WHERE tool = 'echo'",
        "UPDATE entries SET body = NULL WHERE kind = 'erased'",
        "UPDATE entries SET body = NULL WHERE kind = 'policy'",
    ],
)
def test_this_is_found(database: sqlite3.Connection, anchored: Anchored, statement: str) -> None:
    with undone(database):
        database.execute(statement)
        assert found(examined(database, anchored))


def test_an_erased_body_is_reported_as_erased_and_one_that_is_merely_gone_as_broken(
    made: Made, database: sqlite3.Connection, anchored: Anchored
) -> None:
    assert examined(database, anchored).erased == 2
    with undone(database):
        database.execute("UPDATE entries SET body = NULL, signature = NULL WHERE call_id = ?", (made.calls["denied"],))
        report = examined(database, anchored)
        assert report.erased == 2
        assert [finding.what for finding in report.problems] == [
            "the body of this `settled` entry is gone, and no erase entry names it"
        ]


@pytest.mark.parametrize("row", ["denied", "refused"])
def test_a_check_of_one_run_finds_what_is_wrong_with_its_chain(
    made: Made, database: sqlite3.Connection, anchored: Anchored, row: str
) -> None:
    """The chain of another project is none of the run's business."""
    assert examined(database, anchored, made.run_id).ok
    with undone(database):
        database.execute("UPDATE entries SET tool = 'x' WHERE call_id = ?", (made.calls[row],))
        assert found(examined(database, anchored, made.run_id)) is (row == "denied")


def test_a_check_of_one_run_reads_the_bodies_and_results_of_its_own_entries(
    made: Made, database: sqlite3.Connection, anchored: Anchored
) -> None:
    for change, expected in (
        (f"UPDATE entries SET body = replace(body, 'a', 'b') WHERE run_id = '{made.run_id}'", True),
        ("UPDATE blobs SET data = x'7b7d'", True),
        (f"UPDATE entries SET body = body || ' ' WHERE call_id = '{made.calls['denied']}'", False),
    ):
        with undone(database):
            database.execute(change)
            assert found(examined(database, anchored, made.run_id)) is expected, change


@pytest.fixture
def copy(made: Made, tmp_path: Path) -> LedgerFiles:
    """A ledger of its own for what is done to files."""
    backup(made.db, tmp_path / "copy.db")
    return LedgerFiles(tmp_path / "copy.db")


def test_a_database_without_content_is_found_by_the_anchor(copy: LedgerFiles) -> None:
    copy.db.write_bytes(b"")
    assert found(verify(copy.db))
    copy.db.write_bytes(b"not a database at all, but long enough to look like a file of one" * 100)
    assert found(verify(copy.db))
    copy.db.unlink()
    assert found(verify(copy.db))
    copy.anchor.unlink()
    with pytest.raises(StorageError) as refused:
        verify(copy.db)
    assert refused.value.code == 5001


def test_a_database_that_is_rolled_back_to_an_earlier_copy_is_found_and_not_opened(tmp_path: Path) -> None:
    async def write(times: int) -> None:
        async with gate_at(tmp_path / "a.db") as gate:
            for _ in range(times):
                await gate.call("echo", text="x")

    files = LedgerFiles(tmp_path / "a.db")
    asyncio.run(write(3))
    backup(files.db, tmp_path / "earlier.db")
    asyncio.run(write(2))
    for name in ("a.db-wal", "a.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    shutil.copy(tmp_path / "earlier.db", files.db)
    report = verify(files.db)
    assert [str(finding) for finding in report.problems] == [
        "project `default`: cut short: 5 entries were anchored, 3 are there"
    ]
    with pytest.raises(StorageError) as refused:
        SqliteLedger(files.db, SteppingClock(), RandomIds())
    assert refused.value.code == 5004


def test_an_edit_of_any_line_of_the_anchor_is_found(copy: LedgerFiles) -> None:
    lines = copy.anchor.read_bytes().splitlines(keepends=True)
    for number, line in enumerate(lines, 1):
        for place in (0, len(line) // 2, line.index(b"\t"), line.index(b"\t") + 1, len(line) - 2):
            copy.anchor.write_bytes(b"".join([*lines[: number - 1], flipped(line, place), *lines[number:]]))
            report = verify(copy.db)
            assert report.anchor == "broken"
            assert f"line {number} of" in str(report.problems[-1])


def test_lines_cut_from_the_anchor_leave_a_tail_that_is_reported(copy: LedgerFiles) -> None:
    """Nobody can tell it from a crash before the last lines; a copy of the anchor elsewhere can."""
    whole, kept = copy.anchor.read_bytes(), copy.db.with_name("kept.anchor")
    kept.write_bytes(whole)
    lines = whole.splitlines(keepends=True)
    entries = verify(copy.db).entries
    reports = []
    for left in range(len(lines) - 1, 0, -1):
        copy.anchor.write_bytes(b"".join(lines[:left]) + lines[left][:20])
        reports.append(verify(copy.db))
    assert {(report.ok, report.anchor) for report in reports} == {(True, "ok")}
    assert sum(reports[-1].unanchored.values()) == entries
    with closing(sqlite3.connect(copy.db, isolation_level=None)) as database:
        database.execute("DELETE FROM entries WHERE project = 'home' AND seq > 6")
        mend_heads(database)
    assert verify(copy.db).ok
    assert found(verify(copy.db, anchor=kept))


@pytest.mark.parametrize(
    ("status", "damage"),
    [
        ("missing", lambda files: files.anchor.unlink()),
        ("empty", lambda files: files.anchor.write_bytes(b"")),
        ("empty", lambda files: files.anchor.write_bytes(files.anchor.read_bytes()[:30])),
        ("no_key", lambda files: files.anchor_key.unlink()),
        ("broken", lambda files: files.anchor_key.write_bytes(bytes(32))),
        ("broken", lambda files: files.anchor_key.write_bytes(b"short")),
    ],
)
def test_an_anchor_or_key_that_is_gone_is_a_problem_and_the_ledger_is_not_opened(
    copy: LedgerFiles, status: str, damage: Any
) -> None:
    damage(copy)
    report = verify(copy.db)
    assert (report.ok, report.anchor, len(report.problems)) == (False, status, 1)
    with pytest.raises(StorageError) as refused:
        SqliteLedger(copy.db, SteppingClock(), RandomIds())
    assert refused.value.code == 5004


def test_damage_to_the_pages_of_the_file_is_a_finding_and_never_a_traceback(copy: LedgerFiles) -> None:
    whole = copy.db.read_bytes()
    chance = random.Random(7)
    written = [place for place in range(0, len(whole), 64) if any(whole[place : place + 64])]
    reports = []
    for place in chance.choices(written, k=300):
        damaged = bytearray(whole)
        damaged[place : place + 64] = chance.randbytes(64)
        copy.db.write_bytes(damaged)
        with suppress(StorageError):
            reports.append(verify(copy.db))
    assert sum(not report.ok for report in reports) > 250
    assert all(len(str(finding).splitlines()) == 1 for report in reports for finding in report.problems)

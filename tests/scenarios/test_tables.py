"""Every table of the ledger, every column: whatever is forged, removed or added there, `verify` says so or why not."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import orjson
import pytest

from agent_gate import Gate, run_plan, tool, transition
from agent_gate.gate.approvals import Approvals
from agent_gate.history.projects import Projects
from agent_gate.history.verify import examine, verify
from agent_gate.history.verify_side_tables import ADDED, ALL, BARE, REMOVED, UNCOVERED
from agent_gate.ledger import anchor
from agent_gate.ledger.files import LedgerFiles
from agent_gate.ledger.sqlite.backup import backup
from agent_gate.ledger.sqlite.ledger import SqliteLedger
from agent_gate.ledger.sqlite.reader import SqliteReader
from agent_gate.ledger.sqlite.schema import SHIPPED
from agent_gate.model.approval import GrantTerms
from agent_gate.model.entry import GATE_PROJECT
from agent_gate.model.moment import iso
from agent_gate.model.plan import Plan, PlanStep
from agent_gate.model.work import KeepMessage, LeaveResult, Work
from agent_gate.ports.examining import Anchored
from agent_gate.services.contacts import ContactsService
from agent_gate.services.home_assistant.tables import EntityRow, keep_entities
from tests.gates import ANNA, BOB, a_gate, agent, approve, deny, outcome_of, pending, sender, until

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "ledger.md"
POLICY = {
    "rules": [{"pattern": "mail.*", "action": "ask"}, {"pattern": "[sc]*", "action": "allow"}],
    "approvals": [{"min_cost": 50, "approvers_required": 2}],
    "limits": {"rate": {"per_minute": 100, "per_hour": 1000}, "budget": {"daily": 1000}},
    "max_calls_per_tool": 50,
}
ROWS_MAX = 3


@asynccontextmanager
async def at_work(folder: Path) -> AsyncIterator[Gate]:
    """A gate in the middle of its work: something waits, something runs, and every table has a row."""
    go_on = asyncio.Event()

    async def report(_: dict[str, Any]) -> None:
        await go_on.wait()

    @transition("count.up", schema={"type": "object", "properties": {}}, post_execution=report)
    def count_up(_: dict[str, Any], state: Any) -> tuple[Any, str]:
        return {"n": state.get("n", 0) + 1}, "counted"

    @tool("slow.act", effect="write", risk="low", cost=3)
    async def slow() -> None:
        await go_on.wait()

    @tool("mail.dear", effect="write", risk="low", cost=60)
    async def dear() -> None: ...

    me = agent("local", projects=("*",))
    async with a_gate(folder, POLICY, sender([]), slow, dear, count_up, agent=me) as gate:
        await fill(gate)
        running = asyncio.create_task(gate.call("slow.act", request_id="slow-1"))
        planned = asyncio.create_task(run_plan(gate, Plan((PlanStep("slow.act", {}),), "slow"), agent=me))
        await gate.call("count.up")
        half = await pending(gate, "mail.dear")
        await approve(gate, half, ANNA)
        await pending(gate, "mail.send", {"text": "open"})
        await until(lambda: count(folder, "open_work") == 3)
        try:
            yield gate
        finally:
            go_on.set()
            await asyncio.gather(running, planned)


async def fill(gate: Gate) -> None:
    ledger = gate.ledger
    assert isinstance(ledger, SqliteLedger)
    await Projects(ledger, gate.clock, gate.ids, "anna").create("home", {"lamps": []}, {"type": "object"})
    for text in ("twice", "revoked"):
        asked = await pending(gate, "mail.send", {"text": text})
        await gate.answer(asked.call_id, approve=True, by=BOB, nonce=asked.nonce, grant=GrantTerms(3600, 3))
        await outcome_of(gate, asked)
    await gate.call("mail.send", text="twice")
    (revoked,) = [grant for grant in await Approvals(gate).grants() if grant.uses_left == 3]
    await Approvals(gate).revoke(revoked.grant_id, ANNA)
    refused = await pending(gate, "mail.send", {"text": "never"})
    await deny(gate, refused)
    outcome = await outcome_of(gate, refused)
    left = LeaveResult("local", outcome.call_id, None, iso(gate.clock.now()))
    message = KeepMessage(outcome.call_id, "telegram", "7")
    entity = EntityRow("light.hall", "on", "{}", iso(0.0), iso(0.0))
    await ledger.commit(Work(GATE_PROJECT, changes=(left, message, keep_entities((entity,)))))
    await ContactsService(ledger, ledger.storage.secret(), gate.clock, gate.ids).set("lamp", "secret", by="anna")


def count(folder: Path, table: str) -> int:
    with closing(sqlite3.connect(folder / "gate.db")) as connection:
        return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> LedgerFiles:
    folder = tmp_path_factory.mktemp("tables")

    async def make() -> None:
        async with at_work(folder):
            backup(folder / "gate.db", folder / "copy.db")

    asyncio.run(make())
    return LedgerFiles(folder / "copy.db")


@pytest.fixture(scope="module")
def anchored(files: LedgerFiles) -> Anchored:
    return anchor.examine(files, files.anchor)


@pytest.fixture(scope="module")
def database(files: LedgerFiles) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(files.db)) as source, closing(sqlite3.connect(":memory:")) as copy:
        source.backup(copy)
        copy.isolation_level = None
        yield copy


@contextmanager
def undone(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("SAVEPOINT forged")
    try:
        yield
    finally:
        connection.execute("ROLLBACK TO forged")
        connection.execute("RELEASE forged")


def tables_of(connection: sqlite3.Connection) -> list[str]:
    found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
    return [name for (name,) in found]


def columns_of(connection: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]


def keys_of(connection: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in connection.execute(f"PRAGMA table_info({table})") if row[5]]


def rows_of(connection: sqlite3.Connection, table: str) -> list[dict[str, Any]]:
    """Some from the beginning and some from the end."""
    columns = columns_of(connection, table)
    rows = connection.execute(f"SELECT {', '.join(columns)} FROM {table}").fetchall()
    chosen = rows if len(rows) <= 2 * ROWS_MAX else rows[:ROWS_MAX] + rows[-ROWS_MAX:]
    return [dict(zip(columns, row, strict=True)) for row in chosen]


def others(value: Any) -> Iterator[Any]:
    """What somebody might write in the place of a value: also what looks right."""
    match value:
        case None:
            yield "forged"
        case int() | float():
            yield value + 1
            yield value - 1
        case bytes():
            yield bytes([value[0] ^ 1]) + value[1:] if value else b"x"
        case str():
            yield f"{value}x"
            with suppress(orjson.JSONDecodeError):
                parsed = orjson.loads(value)
                yield orjson.dumps([*parsed, "x"] if isinstance(parsed, list) else {"forged": parsed}).decode()
        case _:
            raise AssertionError(f"SQLite has no such value: {value!r}")
    if value is not None:
        yield None


def is_found(connection: sqlite3.Connection, anchored: Anchored) -> bool:
    return not examine(SqliteReader(connection), anchored).ok


def is_uncovered(table: str, column: str) -> bool:
    return bool({(table, column), (table, ALL)} & UNCOVERED.keys())


def test_every_table_has_a_row_and_the_copy_verifies(files: LedgerFiles, database: sqlite3.Connection) -> None:
    assert [table for table in tables_of(database) if not rows_of(database, table)] == []
    assert verify(files.db).problems == ()


def test_a_value_that_is_forged_in_any_column_is_found(database: sqlite3.Connection, anchored: Anchored) -> None:
    missed = set()
    for table in tables_of(database):
        keys = keys_of(database, table)
        for row in rows_of(database, table):
            for column, value in row.items():
                for other in others(value):
                    with undone(database):
                        place = " AND ".join(f"{key} = ?" for key in keys)
                        try:
                            database.execute(
                                f"UPDATE {table} SET {column} = ? WHERE {place}", (other, *(row[key] for key in keys))
                            )
                        except sqlite3.Error:
                            continue
                        if not is_uncovered(table, column) and not is_found(database, anchored):
                            missed.add((table, column, repr(value)[:80], repr(other)[:80]))
    assert missed == set()


def test_a_row_that_is_removed_is_found(database: sqlite3.Connection, anchored: Anchored) -> None:
    missed = set()
    for table in tables_of(database):
        keys = keys_of(database, table)
        for row in rows_of(database, table):
            with undone(database):
                place = " AND ".join(f"{key} = ?" for key in keys)
                database.execute(f"DELETE FROM {table} WHERE {place}", [row[key] for key in keys])
                if not is_uncovered(table, REMOVED) and not is_found(database, anchored):
                    missed.add((table, *(row[key] for key in keys)))
    assert missed == set()


def test_a_row_that_is_added_is_found(database: sqlite3.Connection, anchored: Anchored) -> None:
    missed = set()
    for table in tables_of(database):
        keys = keys_of(database, table)
        for row in rows_of(database, table):
            for key in keys:
                forged = {**row, key: next(others(row[key]))}
                marks = ", ".join("?" * len(forged))
                with undone(database), suppress(sqlite3.IntegrityError):
                    database.execute(f"INSERT INTO {table} VALUES ({marks})", list(forged.values()))
                    if not is_uncovered(table, ADDED) and not is_found(database, anchored):
                        missed.add((table, forged[key]))
    assert missed == set()


def test_each_exception_is_one_of_a_table_that_exists_and_stands_in_the_reference(
    database: sqlite3.Connection,
) -> None:
    known = {(table, column) for table in tables_of(database) for column in columns_of(database, table)}
    known |= {(table, what) for table in tables_of(database) for what in (ADDED, REMOVED, BARE, ALL)}
    assert UNCOVERED.keys() <= known
    text = REFERENCE.read_text()
    assert [
        line for (table, what), why in UNCOVERED.items() if (line := f"| `{table}` | {what} | {why} |") not in text
    ] == []


@pytest.mark.parametrize(
    "sql",
    [
        "DROP VIEW audit_log; CREATE VIEW audit_log AS SELECT 1 AS id",
        "DROP VIEW runs",
        "CREATE VIEW extra AS SELECT 1",
        "CREATE TABLE extra (x)",
        "CREATE TRIGGER quiet AFTER INSERT ON entries BEGIN DELETE FROM grants; END",
        "CREATE TRIGGER quiet INSTEAD OF INSERT ON audit_log BEGIN SELECT 1; END",
        "DROP INDEX entries_grant",
        "DROP INDEX entries_call; CREATE INDEX entries_call ON entries (call_id) WHERE call_id IS NULL",
        "CREATE INDEX extra ON entries (tool)",
        "CREATE UNIQUE INDEX extra ON grants (key)",
        "ALTER TABLE grants ADD COLUMN more TEXT",
        "ALTER TABLE counters RENAME TO others; CREATE TABLE counters (project, scope, bucket, amount)",
        "ALTER TABLE clock RENAME TO others; CREATE TABLE clock (boot TEXT PRIMARY KEY, offset_s FLOAT) WITHOUT ROWID",
        "ANALYZE",
    ],
)
def test_a_schema_that_is_not_the_shipped_one_is_found(
    database: sqlite3.Connection, anchored: Anchored, sql: str
) -> None:
    with undone(database):
        for statement in sql.split("; ") if "BEGIN" not in sql else [sql]:
            database.execute(statement)
        assert is_found(database, anchored)


def indexes() -> list[str]:
    text = SHIPPED.read_text()
    return [
        line.split(" ON ")[0].split()[-1] for line in text.splitlines() if line.startswith("CREATE") and "INDEX" in line
    ]


@pytest.mark.parametrize("index", indexes())
def test_an_index_that_was_emptied_behind_its_text_is_found(files: LedgerFiles, tmp_path: Path, index: str) -> None:
    """Its text is as shipped again; only its pages lack the rows."""
    backup(files.db, tmp_path / "a.db")
    with closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as connection:
        (text,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", (index,)).fetchone()
        bare, _, condition = text.partition(" WHERE ")
        emptied = f"{bare} WHERE 0 AND {condition or '1'}"
        rewrite(connection, index, emptied)
        connection.execute(f"REINDEX {index}")
        rewrite(connection, index, text)
    report = verify(tmp_path / "a.db")
    has_rows = any("missing from index" in finding.what for finding in report.problems)
    assert has_rows or index_is_empty_anyway(files.db, index), report.problems


def rewrite(connection: sqlite3.Connection, index: str, text: str) -> None:
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute("UPDATE sqlite_master SET sql = ? WHERE name = ?", (text, index))
    connection.execute("PRAGMA writable_schema = RESET")


def index_is_empty_anyway(db: Path, index: str) -> bool:
    """Where the ledger has nothing that belongs into it."""
    with closing(sqlite3.connect(db)) as connection:
        table, text = connection.execute("SELECT tbl_name, sql FROM sqlite_master WHERE name = ?", (index,)).fetchone()
        condition = text.partition(" WHERE ")[2] or "1"
        return not connection.execute(f"SELECT count(*) FROM {table} WHERE {condition}").fetchone()[0]

"""A ledger that somebody changed behind the gate's back, put before verification."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from agent_gate import Approver, open_gate, tool
from agent_gate.history.verify import verify
from agent_gate.ledger.chain import header_bytes, link
from agent_gate.ledger.files import LedgerFiles
from agent_gate.ledger.sqlite.rows import ENTRY_COLUMNS
from agent_gate.model.approval import GrantTerms
from agent_gate.model.codec import canonical
from agent_gate.model.errors import StorageError
from agent_gate.model.outcome import Status
from tests.attacks.cases import Case
from tests.attacks.runner import Skipped

CHECKS: frozenset[str] = frozenset()

_COLUMNS = ENTRY_COLUMNS.split(", ")
_NAMES = {"ts": "at", "timestamp": "at", "time": "at", "agent": "agent_id", "prev": "prev_hash", "tool_name": "tool"}
"""Fields of the cases that are columns of ours under another name; other fields stand in the body."""


@tool("row.add", effect="read", cost=0, risk="low")
async def add_row(number: int) -> int:
    return number


@tool("row.send", effect="write", cost=1, risk="low")
async def send_row(number: int) -> int:
    return number


def run(case: Case, root: Path) -> str:
    db = root / "ledger.db"
    mutations = case.args["mutate"]
    wanted = next(step["ledger"] for step in case.setup if "ledger" in step)
    asyncio.run(_write(db, wanted["rows"], mutations))
    if wanted.get("people"):
        asyncio.run(_ask_people(db))
    for mutation in mutations:
        _mutate(LedgerFiles(db), mutation)
    if case.tool == "ledger.decide":
        return asyncio.run(_decide(db))
    return "allow" if verify(db).ok else "error"


ASKING = {
    "rules": [{"pattern": "row.send(*)", "action": "ask"}],
    "limits": {"budget": {"daily": 100}},
    "cooldown_seconds": 60,
}
PEOPLE = [Approver("anna", ("admin",))]


async def _ask_people(db: Path) -> None:
    """A grant that is used up, a no, and a question that is open: rows in every table that decisions read."""
    async with open_gate(ASKING, db, tools=[send_row], approvers=PEOPLE) as gate:
        for number, grant in ((1, GrantTerms(3600, 1)), (2, None)):
            asked = await gate.call("row.send", {"number": number}, wait=False)
            await gate.answer(asked.call_id, approve=number == 1, by=PEOPLE[0], grant=grant)
            await gate.result(asked.call_id)
        await gate.call("row.send", {"number": 1})
        await gate.call("row.send", {"number": 3}, request_id="open", wait=False)


async def _decide(db: Path) -> str:
    """What the open question and the used-up grant are worth now."""
    try:
        async with open_gate(ASKING, db, tools=[send_row], approvers=PEOPLE) as gate:
            again = await gate.call("row.send", {"number": 1}, wait=False)
            answered = await gate.call("row.send", {"number": 3}, request_id="open", wait=False)
    except StorageError:
        return "error"
    statuses = {again.status, answered.status}
    return "allow" if Status.SUCCESS in statuses else "ask" if Status.PENDING_APPROVAL in statuses else "deny"


async def _write(db: Path, rows: int, mutations: list[Mapping[str, Any]]) -> None:
    """Calls whose decision is not the one that the case will write over it."""
    denies = any(mutation.get("value") == "deny" for mutation in mutations)
    policy = {"rules": [{"pattern": "row.add*", "action": "allow" if denies else "deny"}]}
    async with open_gate(policy, db, tools=[add_row]) as gate:
        for number in range(rows):
            await gate.call("row.add", number=number)


def _mutate(files: LedgerFiles, mutation: Mapping[str, Any]) -> None:
    with closing(sqlite3.connect(files.db, isolation_level=None)) as database, _without_chain_index(database):
        match mutation:
            case {"op": "sql", "statement": statement}:
                database.executescript(statement)
            case {"op": "empty_index", "index": index}:
                _empty_index(database, index)
            case {"op": "update", "seq": seq, "field": field, "value": value}:
                _update(database, seq, _NAMES.get(field, field), value)
            case {"op": "delete", "seq": seq}:
                database.execute("DELETE FROM entries WHERE project = 'default' AND seq = ?", (seq,))
            case {"op": "swap", "seq": [one, other]}:
                _swap(database, one, other)
            case {"op": "insert" | "duplicate", "seq": seq}:
                _insert(database, seq)
            case {"op": "delete_tail" | "truncate", "rows": rows}:
                last = "SELECT id FROM entries WHERE project = 'default' ORDER BY seq DESC LIMIT ?"
                database.execute(f"DELETE FROM entries WHERE id IN ({last})", (rows,))
                _mend_head(database)
            case {"op": "delete_all"}:
                database.execute("DELETE FROM entries")
                _mend_head(database)
            case {"op": "drop_table"}:
                database.execute("DROP TABLE entries")
            case {"op": "rehash_from", "seq": seq}:
                _rehash(database, seq)
            case {"op": "rehash_all"}:
                _rehash(database, 1)
            case _:
                raise Skipped


@contextmanager
def _without_chain_index(database: sqlite3.Connection) -> Iterator[None]:
    """It would keep an attacker from some changes; afterwards it is there again, if the rows allow it."""
    found = database.execute("SELECT sql FROM sqlite_master WHERE name = 'entries_chain'").fetchone()
    database.execute("DROP INDEX IF EXISTS entries_chain")
    yield
    with suppress(sqlite3.Error):
        database.execute(found[0])


def _empty_index(database: sqlite3.Connection, index: str) -> None:
    """Of which only the text is as it was."""
    (text,) = database.execute("SELECT sql FROM sqlite_master WHERE name = ?", (index,)).fetchone()
    bare, _, condition = text.partition(" WHERE ")
    for changed in (f"{bare} WHERE 0 AND {condition or '1'}", text):
        database.execute("PRAGMA writable_schema = ON")
        database.execute("UPDATE sqlite_master SET sql = ? WHERE name = ?", (changed, index))
        database.execute("PRAGMA writable_schema = RESET")
        if changed != text:
            database.execute(f"REINDEX {index}")


def _update(database: sqlite3.Connection, seq: int, field: str, value: Any) -> None:
    if field in _COLUMNS:
        database.execute(f"UPDATE entries SET {field} = ? WHERE project = 'default' AND seq = ?", (value, seq))
        return
    (body,) = database.execute("SELECT body FROM entries WHERE project = 'default' AND seq = ?", (seq,)).fetchone()
    fields = json.loads(body)
    given_as_text = isinstance(value, str) and isinstance(fields.get(field), dict | list)
    fields[field] = json.loads(value) if given_as_text else value
    _update(database, seq, "body", canonical(fields).decode())


def _swap(database: sqlite3.Connection, one: int, other: int) -> None:
    for target, source in ((-one, other), (other, one), (one, -one)):
        database.execute("UPDATE entries SET seq = ? WHERE project = 'default' AND seq = ?", (target, source))


def _insert(database: sqlite3.Connection, seq: int) -> None:
    """A copy of an entry in its own place; all later ones move on by one."""
    copied = ENTRY_COLUMNS.replace("seq", "seq - 1", 1)
    database.execute("UPDATE entries SET seq = seq + 1 WHERE project = 'default' AND seq >= ?", (seq,))
    database.execute(
        f"INSERT INTO entries ({ENTRY_COLUMNS}) SELECT {copied} FROM entries WHERE project = 'default' AND seq = ?",
        (seq + 1,),
    )


def _rehash(database: sqlite3.Connection, start: int) -> None:
    """As somebody would who knows the format and does not have the key."""
    rows = database.execute(
        f"SELECT id, {ENTRY_COLUMNS} FROM entries WHERE project = 'default' AND seq >= ? ORDER BY seq", (start,)
    ).fetchall()
    previous = rows[0][1 + _COLUMNS.index("prev_hash")]
    for id, *values in rows:
        fields = dict(zip(_COLUMNS, values, strict=True))
        body_hash = sha256(fields["body"].encode()).digest()
        header = header_bytes(
            "default", fields["seq"], fields["at"], fields["kind"], fields["run_id"], fields["call_id"],
            fields["request_id"], fields["agent_id"], fields["tool"], fields["status"], body_hash,
        )  # fmt: skip
        hash = link(previous, header)
        database.execute(
            "UPDATE entries SET body_hash = ?, prev_hash = ?, hash = ? WHERE id = ?", (body_hash, previous, hash, id)
        )
        previous = hash
    _mend_head(database)


def _mend_head(database: sqlite3.Connection) -> None:
    """The head agrees with what is left, so that only the anchor can tell."""
    row = database.execute(
        "SELECT seq, hash FROM entries WHERE project = 'default' ORDER BY seq DESC LIMIT 1"
    ).fetchone()
    database.execute("UPDATE heads SET seq = ?, hash = ? WHERE project = 'default'", row or (0, bytes(32)))

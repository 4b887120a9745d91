"""One transaction: a storage that fails while works are applied leaves nothing of any of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from agent_gate.ledger.sqlite.connection import connect
from agent_gate.ledger.sqlite.ledger import SqliteLedger
from agent_gate.ledger.sqlite.transaction import transact
from agent_gate.model.codec import canonical
from agent_gate.model.committed import Applied
from agent_gate.model.entry import Draft, Kind
from agent_gate.model.moment import iso
from agent_gate.model.work import Work
from tests.gates import NOON, CountedIds, HandClock

MUCH = "x" * 4_000_000


def work(text: str) -> Work:
    return Work("default", (Draft(Kind.POLICY, iso(NOON), canonical({"text": text})),))


@pytest.fixture
async def db(tmp_path: Path) -> Path:
    await SqliteLedger(tmp_path / "a.db", HandClock(), CountedIds()).close()
    return tmp_path / "a.db"


def counted(take: Callable[[], Sequence[Work]]) -> tuple[Callable[[], Sequence[Work]], list[int]]:
    taken: list[int] = []

    def taking() -> Sequence[Work]:
        works = take()
        taken.append(len(works))
        return works

    return taking, taken


async def test_a_disk_that_is_full_before_the_commit_fails_the_group_as_a_whole_and_once(db: Path) -> None:
    """Not one by one: a storage that failed is opened and checked anew before anything is tried again."""
    with closing(connect(db)) as connection:
        before = connection.execute("SELECT count(*), max(seq) FROM entries").fetchone()
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages + 8}")
        take, taken = counted(lambda: [work("first"), work(MUCH), work("last")])
        statements: list[str] = []
        connection.set_trace_callback(statements.append)
        done = transact(connection, take, "instance")
        connection.set_trace_callback(None)
        assert isinstance(done.fault, sqlite3.OperationalError)
        assert (done.results, done.moved, taken) == ([], {}, [3])
        assert not connection.in_transaction
        assert sum(statement.startswith("BEGIN") for statement in statements) == 1
        assert "COMMIT" not in statements
        assert connection.execute("SELECT count(*), max(seq) FROM entries").fetchone() == before
        connection.execute("PRAGMA max_page_count = 1000000")
        again = transact(connection, lambda: [work("first"), work(MUCH)], "instance")
        assert again.fault is None
        assert all(isinstance(result, Applied) for result in again.results)


async def test_a_piece_of_work_at_fault_fails_alone_and_the_others_are_written(db: Path) -> None:
    with closing(connect(db)) as connection:
        wrong = Work("default", (Draft(Kind.POLICY, iso(NOON), canonical({}), tool=object()),))  # type: ignore[arg-type]  # a defect
        done = transact(connection, lambda: [work("first"), wrong, work("last")], "instance")
        assert done.fault is None
        assert [isinstance(result, Applied) for result in done.results] == [True, False, True]
        assert not connection.in_transaction

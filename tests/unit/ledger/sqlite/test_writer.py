"""The writer: what is anchored when a caller is answered, and what an anchor that fails takes from nobody."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import pytest
from msgspec import structs

from agent_gate.ledger.anchor import Anchor, AnchorKey, read
from agent_gate.ledger.sqlite.group import CHARS_AT_ONCE_MAX
from agent_gate.ledger.sqlite.ledger import SqliteLedger
from agent_gate.ledger.sqlite.locks import WriterLock
from agent_gate.ledger.sqlite.transaction import Transacted, transact
from agent_gate.model.bounds import WAL_CHECKPOINT_BYTES
from agent_gate.model.codec import canonical
from agent_gate.model.committed import Applied, Committed
from agent_gate.model.entry import Draft, Kind
from agent_gate.model.errors import StorageError
from agent_gate.model.moment import iso
from agent_gate.model.work import KeepBlob, Work
from agent_gate.ports.examining import Heads
from tests.gates import NOON, CountedIds, HandClock, soon, until


def work(text: str = "") -> Work:
    return Work("default", (Draft(Kind.POLICY, iso(NOON), canonical({"text": text})),))


def is_locked(path: Path) -> bool:
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def anchored(ledger: SqliteLedger) -> Heads:
    return read(ledger.files.anchor, AnchorKey.of(ledger.files))


async def test_what_a_caller_is_told_is_anchored_already(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / "a.db", HandClock(), CountedIds())
    for _ in range(5):
        result = await ledger.commit(work())
        assert isinstance(result, Applied)
        assert anchored(ledger)["default"] == (result.seq, result.hash)
    await ledger.close()


@pytest.mark.parametrize("error", [OSError(28, "no space"), ValueError("a defect")])
async def test_where_the_anchor_fails_the_entry_stands_and_the_next_waits_for_it(
    tmp_path: Path, error: Exception
) -> None:
    ledger = SqliteLedger(tmp_path / "a.db", HandClock(), CountedIds())
    with patch.object(Anchor, "append", side_effect=error):
        first = await ledger.commit(work())
        with pytest.raises(StorageError):
            await ledger.commit(work())
    head = await ledger.head("default")
    assert isinstance(first, Applied)
    assert head is not None
    assert (head.seq, head.hash) == (first.seq, first.hash)
    await ledger.close()


async def test_who_waits_is_told_what_was_committed_also_where_the_writer_lock_fails(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / "a.db", HandClock(), CountedIds())

    @contextmanager
    def cannot_be_let_go(_: WriterLock) -> Iterator[None]:
        yield
        raise OSError(errno.ENOLCK, "no locks available")

    with patch.object(WriterLock, "held", cannot_be_let_go):
        result = await soon(asyncio.ensure_future(ledger.commit(work())))
        with pytest.raises(StorageError):
            await soon(asyncio.ensure_future(ledger.commit(work())))
    head = await ledger.head("default")
    assert isinstance(result, Applied)
    assert head is not None
    assert head.seq == result.seq
    await ledger.close()


async def test_the_log_is_written_over_when_it_is_long(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / "a.db", HandClock(), CountedIds())
    for _ in range(12):
        await ledger.commit(work("x" * (WAL_CHECKPOINT_BYTES // 4)))
    await ledger.commit(work())
    assert (tmp_path / "a.db-wal").stat().st_size < 3 * WAL_CHECKPOINT_BYTES
    await ledger.close()


async def test_what_one_turn_of_the_event_loop_asks_for_is_one_group(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / "a.db", HandClock(), CountedIds())
    before = ledger.figures().commits
    results = await asyncio.gather(*(ledger.commit(work(str(number))) for number in range(150)))
    assert [result.seq for result in results if isinstance(result, Applied)] == list(range(1, 151))
    assert ledger.figures().commits == before + 1
    await ledger.close()


async def test_whoever_comes_until_the_transaction_is_open_belongs_to_it(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / "a.db", HandClock(), CountedIds())
    before = ledger.figures().commits
    other = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    commits = [asyncio.ensure_future(ledger.commit(work("first")))]
    await until(lambda: is_locked(ledger.files.writer_lock))  # the writer has woken up, and waits for the other
    commits += [asyncio.ensure_future(ledger.commit(work(str(number)))) for number in range(5)]
    await asyncio.sleep(0)
    assert ledger.figures().commits == before
    other.execute("ROLLBACK")
    results = await asyncio.gather(*commits)
    assert [result.seq for result in results if isinstance(result, Applied)] == list(range(1, 7))
    assert ledger.figures().commits == before + 1
    other.close()
    await ledger.close()


async def test_whoever_comes_while_an_idle_writer_mends_itself_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = SqliteLedger(tmp_path / "a.db", HandClock(), CountedIds())
    loop, late = asyncio.get_running_loop(), list[asyncio.Future[Committed]]()

    def transact_slowly(*args: Any) -> Transacted:
        done = transact(*args)
        if ledger._writer._broken_since is None and not late:  # reopened, and found nothing that waits
            queued = threading.Event()

            def come_late() -> None:
                late.append(asyncio.ensure_future(ledger.commit(work("late"))))
                loop.call_soon(queued.set)

            loop.call_soon_threadsafe(come_late)
            queued.wait(5)
        return done

    monkeypatch.setattr(ledger._writer, "_transact", transact_slowly)
    ledger._writer._stop(OSError("a moment ago"))
    ledger._writer._broken_since = 0.0  # and it may be mended now
    ledger._writer._calls.put(None)
    await until(lambda: late)
    assert isinstance(await soon(late[0]), Applied)
    await ledger.close()


async def test_a_defect_in_the_writer_does_not_end_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = SqliteLedger(tmp_path / "a.db", HandClock(), CountedIds())
    monkeypatch.setattr(ledger._writer, "_sync_anchor_if_due", Mock(side_effect=KeyError("a defect")))
    assert isinstance(await ledger.commit(work("first")), Applied)
    await until(lambda: ledger._writer._broken_since is not None)
    monkeypatch.undo()
    ledger._writer._broken_since = 0.0
    assert isinstance(await soon(ledger.commit(work("second"))), Applied)
    await ledger.close()


async def test_what_is_beside_an_entry_counts_for_the_length_of_the_log(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / "a.db", HandClock(), CountedIds())
    for number in range(12):
        blob = KeepBlob(f"output:{number}", b"x" * (WAL_CHECKPOINT_BYTES // 4))
        await ledger.commit(structs.replace(work(), changes=(blob,)))
    await ledger.commit(work())
    assert (tmp_path / "a.db-wal").stat().st_size < 3 * WAL_CHECKPOINT_BYTES
    await ledger.close()


@pytest.mark.parametrize("statement", ["BEGIN IMMEDIATE", "INSERT INTO entries", "COMMIT"])
async def test_wherever_the_storage_fails_all_who_wait_are_told_and_nothing_is_written(
    tmp_path: Path, statement: str
) -> None:
    ledger = SqliteLedger(tmp_path / "a.db", HandClock(), CountedIds())
    writer, connection = ledger._writer, ledger._writer._connection

    class Failing:
        in_transaction = property(lambda _: connection.in_transaction)

        def execute(self, sql: str, *values: Any) -> Any:
            if sql.startswith(statement):
                raise sqlite3.OperationalError("disk I/O error")
            return connection.execute(sql, *values)

        def close(self) -> None:
            connection.close()

    writer._connection = Failing()  # type: ignore[assignment]
    results = await asyncio.gather(*(ledger.commit(work(str(number))) for number in range(5)), return_exceptions=True)
    assert all(isinstance(result, StorageError) and "disk I/O error" in str(result) for result in results)
    head = await ledger.head("default")
    assert head is not None
    assert head.seq == 0
    writer._broken_since = 0.0  # long ago
    assert isinstance(await ledger.commit(work("after")), Applied)
    await ledger.close()


@pytest.mark.parametrize("count", [*range(1, 12), 63, 64, 65, 130])
async def test_a_group_of_any_size_is_written_whole(tmp_path: Path, count: int) -> None:
    ledger = SqliteLedger(tmp_path / "a.db", HandClock(), CountedIds())
    texts = [str(number) for number in range(count)]
    await asyncio.gather(*map(ledger.commit, map(work, texts)))
    rows = ledger._rows("SELECT seq, body ->> '$.text' FROM entries WHERE project = 'default' ORDER BY seq")
    assert [tuple(row) for row in rows] == [(number + 1, text) for number, text in enumerate(texts)]
    await ledger.close()


async def test_large_entries_are_written_one_by_one_so_that_no_statement_keeps_them(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / "a.db", HandClock(), CountedIds())
    statements: list[str] = []
    ledger._writer._connection.set_trace_callback(statements.append)
    await asyncio.gather(*(ledger.commit(work(letter * CHARS_AT_ONCE_MAX)) for letter in "abc"))
    await asyncio.gather(*(ledger.commit(work(letter)) for letter in "abc"))
    inserts = [statement for statement in statements if statement.startswith("INSERT INTO entries")]
    assert len(inserts) == 4
    bodies = ledger._rows("SELECT body ->> '$.text' FROM entries WHERE project = 'default' ORDER BY seq")
    assert [body[0][:1] for body in bodies] == list("abcabc")
    await ledger.close()


def test_several_event_loops_are_all_answered(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / "a.db", HandClock(), CountedIds())
    seen: list[int] = []

    async def write_some() -> None:
        for _ in range(20):
            results = await asyncio.gather(*(ledger.commit(work()) for _ in range(5)))
            seen.extend(result.seq for result in results if isinstance(result, Applied))

    threads = [threading.Thread(target=asyncio.run, args=(write_some(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    asyncio.run(ledger.close())
    assert sorted(seen) == list(range(1, 401))


def test_what_an_event_loop_left_behind_when_it_ended_is_written_at_the_close(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / "a.db", HandClock(), CountedIds())

    async def hand_over() -> None:
        for _ in range(3):
            asyncio.ensure_future(ledger.commit(work())).cancel()

    asyncio.run(hand_over())
    asyncio.run(ledger.close())
    again = SqliteLedger(tmp_path / "a.db", HandClock(), CountedIds())
    head = asyncio.run(again.head("default"))
    asyncio.run(again.close())
    assert head is not None
    assert head.seq == 3

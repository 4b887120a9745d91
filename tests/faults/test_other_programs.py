"""Other programs meet the ledger's files: they lock, delete, tear and inherit them, and no promise is broken."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sqlite3
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agent_gate.app import open_gate
from agent_gate.history.verify import verify
from agent_gate.ledger.files import LedgerFiles
from agent_gate.ledger.sqlite.bounds import LedgerBounds
from agent_gate.ledger.sqlite.ledger import SqliteLedger
from agent_gate.ledger.sqlite.locks import WriterLock
from agent_gate.ledger.sqlite.storage import SqliteStorage
from agent_gate.ledger.sqlite.transaction import Transacted, transact
from agent_gate.ledger.sqlite.trust import set_aside
from agent_gate.model.bounds import WAL_CHECKPOINT_BYTES
from agent_gate.model.entry import Draft, Kind
from agent_gate.model.errors import StorageError
from agent_gate.model.moment import iso
from agent_gate.model.work import Work
from agent_gate.system.clock import RandomIds, SystemClock
from agent_gate.toolkit import tool
from tests.faults.examiner import Examiner, Witness
from tests.faults.nursery import Nursery
from tests.faults.programs import POLICY

ACTS: list[str] = []


@tool("line.append")
async def append(token: str) -> str:
    ACTS.append(token)
    return token


def ledger_at(path: Path) -> SqliteLedger:
    return SqliteLedger(path, SystemClock(), RandomIds())


def entry(call_id: str, bytes_more: int = 0) -> Draft:
    body = b'{"text":"%s"}' % (b"x" * bytes_more)
    return Draft(Kind.SETTLED, iso(1_800_000_000), body, call_id=call_id, status="success")


class OtherProgram:
    """Holds the database's write lock for a while, as a backup or a curious person would."""

    def __init__(self, db: Path) -> None:
        self._connection = sqlite3.connect(db, isolation_level=None, check_same_thread=False)
        self._connection.execute("BEGIN EXCLUSIVE")

    def let_go(self) -> None:
        self._connection.execute("ROLLBACK")
        self._connection.close()


async def test_a_database_locked_for_three_seconds_is_waited_for_and_the_act_happens_once(tmp_path: Path) -> None:
    ACTS.clear()
    async with open_gate(POLICY, tmp_path / "a.db", tools=[append]) as gate:
        other = OtherProgram(tmp_path / "a.db")
        timer = threading.Timer(3.0, other.let_go)
        timer.start()
        outcome = await gate.call("line.append", token="once", request_id="r1")
        again = await gate.call("line.append", token="once", request_id="r1")
        timer.join()
    assert outcome.ok
    assert again.call_id == outcome.call_id
    assert ACTS == ["once"]


async def test_a_database_locked_for_longer_than_the_bound_refuses_and_then_mends(tmp_path: Path) -> None:
    storage = partial(SqliteStorage, bounds=LedgerBounds(busy_timeout_s=0.2))
    begun, go_on = asyncio.Event(), asyncio.Event()

    @tool("slow.act")
    async def act() -> None:
        begun.set()
        await go_on.wait()

    async with open_gate(POLICY, tmp_path / "a.db", tools=[act], storage=storage) as gate:
        in_doubt = asyncio.create_task(gate.call("slow.act"))
        await begun.wait()
        other = OtherProgram(tmp_path / "a.db")
        go_on.set()
        refused = await gate.call("state.set", path="a", value=1)
        unknown = await in_doubt
        other.let_go()
        settled = await until_settled(gate.ledger, unknown.call_id)
    assert (refused.status.value, refused.error and refused.error.code) == ("error", 5002)
    assert (unknown.status.value, unknown.error and unknown.error.code) == ("unknown", 5002)
    assert settled == ["unknown"], "told and recorded as soon as the ledger can be written again"
    assert verify(tmp_path / "a.db").problems == ()


async def test_a_writer_lock_that_a_stopped_process_keeps_refuses_and_then_mends(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / "a.db", SystemClock(), RandomIds(), bounds=LedgerBounds(lock_wait_s=0.1))
    stopped = WriterLock(ledger.files)
    async with asyncio.timeout(10):
        with stopped.held(), pytest.raises(StorageError, match="has held the writer lock") as refused:
            await ledger.commit(Work("default", (entry("1"),)))
        await until_written(ledger, entry("2"))
        with stopped.held():
            await ledger.close()
    assert refused.value.code == 5002
    again = ledger_at(tmp_path / "a.db")
    assert [len(await again.entries_of(call_id)) for call_id in ("1", "2")] == [0, 1]
    await again.close()


async def until_written(ledger: SqliteLedger, draft: Draft) -> None:
    while True:
        try:
            await ledger.commit(Work("default", (draft,)))
        except StorageError:
            await asyncio.sleep(0.02)
        else:
            return


async def until_settled(ledger: object, call_id: str) -> list[str | None]:
    assert isinstance(ledger, SqliteLedger)
    async with asyncio.timeout(10):
        while True:
            endings = [each.status for each in await ledger.entries_of(call_id) if each.kind == "settled"]
            if endings:
                return endings
            await asyncio.sleep(0.02)


async def test_a_line_that_a_killed_process_left_torn_in_the_anchor_harms_nobody(tmp_path: Path) -> None:
    ledger = ledger_at(tmp_path / "a.db")
    await ledger.commit(Work("default", (entry("1"),)))
    with ledger.files.anchor.open("ab") as anchor:
        anchor.write(b'["2026-11-15T00:00:00.0000')
    await ledger.commit(Work("default", (entry("2"),)))
    await ledger.close()
    await ledger_at(tmp_path / "a.db").close()
    assert verify(tmp_path / "a.db").problems == ()
    assert all(line.endswith(b"\n") for line in ledger.files.anchor.read_bytes().splitlines(keepends=True))


async def test_zeros_that_a_loss_of_power_left_in_the_anchor_are_cut_off(tmp_path: Path) -> None:
    ledger = ledger_at(tmp_path / "a.db")
    await ledger.commit(Work("default", (entry("1"),)))
    await ledger.close()
    anchor = tmp_path / "a.db.anchor"
    whole = anchor.read_bytes()
    anchor.write_bytes(whole + bytes(3_000) + b"rest of a line\n")
    assert verify(tmp_path / "a.db").problems == ()
    await ledger_at(tmp_path / "a.db").close()
    assert anchor.read_bytes() == whole


@pytest.mark.parametrize(
    "tear", [lambda whole: bytes(100) + b"\n", lambda whole: bytes(100) + b"\n" + whole], ids=["all", "before the rest"]
)
async def test_zeros_that_no_loss_of_power_can_have_left_are_refused(
    tmp_path: Path, tear: Callable[[bytes], bytes]
) -> None:
    await ledger_at(tmp_path / "a.db").close()
    anchor = tmp_path / "a.db.anchor"
    anchor.write_bytes(tear(anchor.read_bytes()))
    with pytest.raises(StorageError, match="was not made with") as refused:
        ledger_at(tmp_path / "a.db")
    assert refused.value.code == 5004


async def test_what_a_crash_left_without_a_line_is_anchored_at_the_next_start(tmp_path: Path) -> None:
    ledger = ledger_at(tmp_path / "a.db")
    before = ledger.files.anchor.read_bytes()
    await ledger.commit(Work("default", (entry("1"),)))
    await ledger.close()
    ledger.files.anchor.write_bytes(before)
    await ledger_at(tmp_path / "a.db").close()
    assert b'["default",1,' in ledger.files.anchor.read_bytes()


async def test_processes_that_live_briefly_do_not_let_the_log_grow_without_bound(tmp_path: Path) -> None:
    keeper = ledger_at(tmp_path / "a.db")
    log = tmp_path / "a.db-wal"
    sizes = []
    for number in range(40):
        brief = ledger_at(tmp_path / "a.db")
        await brief.commit(Work("default", (entry(str(number), bytes_more=400_000),)))
        await brief.close()
        sizes.append(log.stat().st_size)
    await keeper.close()
    assert max(sizes) < 3 * WAL_CHECKPOINT_BYTES
    assert verify(tmp_path / "a.db").problems == ()


async def test_the_last_one_to_leave_leaves_one_file_without_a_log(tmp_path: Path) -> None:
    first, second = ledger_at(tmp_path / "a.db"), ledger_at(tmp_path / "a.db")
    await first.commit(Work("default", (entry("1"),)))
    await first.close()
    await second.close()
    await second.close()
    assert sorted(os.listdir(tmp_path)) == ["a.db", "a.db.anchor", "a.db.d"]


def delete_database(db: Path) -> None:
    db.unlink()


def delete_log(db: Path) -> None:
    db.with_name(f"{db.name}-wal").unlink()


def delete_everything(db: Path) -> None:
    shutil.rmtree(db.parent)


def replace_database(db: Path) -> None:
    copy = db.with_name("copy")
    shutil.copy(db, copy)
    copy.replace(db)


def replace_log(db: Path) -> None:
    log = db.with_name(f"{db.name}-wal")
    shutil.copy(log, db.with_name("copy"))
    db.with_name("copy").replace(log)


@pytest.mark.parametrize(
    "meddle",
    [delete_database, delete_log, delete_everything, replace_database, replace_log],
    ids=lambda one: one.__name__,
)
async def test_what_cannot_be_found_again_is_never_told_as_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, meddle: Callable[[Path], None]
) -> None:
    (tmp_path / "ledger").mkdir()
    db = tmp_path / "ledger" / "a.db"
    ledger = ledger_at(db)
    await ledger.commit(Work("default", (entry("1"),)))
    meddle(db)
    for _ in range(3):
        with pytest.raises(StorageError, match=r"is gone|another file is in the place") as refused:
            await ledger.commit(Work("default", (entry("2"),)))
        assert (refused.value.code, "init --force" in refused.value.problem.suggestion) == (5002, True)
    await ledger.close()
    assert [record.levelname for record in caplog.records if "cannot be written" in record.message] == ["ERROR"]


async def test_what_is_deleted_while_it_is_written_is_not_told_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = ledger_at(tmp_path / "a.db")

    def delete_meanwhile(*args: Any) -> Transacted:
        done = transact(*args)
        (tmp_path / "a.db").unlink()
        return done

    monkeypatch.setattr(ledger._writer, "_transact", delete_meanwhile)
    with pytest.raises(StorageError, match="is gone") as refused:
        await ledger.commit(Work("default", (entry("1"),)))
    assert refused.value.code == 5002
    await ledger.close()


async def test_the_end_of_a_deleted_ledger_takes_nothing_from_the_one_in_its_place(tmp_path: Path) -> None:
    files = LedgerFiles(tmp_path / "a.db")
    old = ledger_at(files.db)
    await old.commit(Work("default", (entry("1"),)))
    files.db.unlink()
    set_aside(files, iso(0))
    new = ledger_at(files.db)
    await new.commit(Work("default", (entry("2"),)))
    await old.close()
    await new.commit(Work("default", (entry("3"),)))
    await new.close()
    report = verify(files.db)
    assert (report.problems, report.unanchored, report.entries) == ((), {}, 2)


async def test_a_deleted_database_is_refused_at_the_next_start_with_the_way_out(tmp_path: Path) -> None:
    ledger = ledger_at(tmp_path / "a.db")
    await ledger.commit(Work("default", (entry("1"),)))
    (tmp_path / "a.db").unlink()
    await ledger.close()
    with pytest.raises(StorageError, match="is gone, but") as gone:
        ledger_at(tmp_path / "a.db")
    assert (gone.value.code, "init --force" in gone.value.problem.suggestion) == (5004, True)


def test_a_fork_that_outlives_its_gate_does_not_keep_the_gates_locks(tmp_path: Path) -> None:
    db, acts = tmp_path / "a.db", tmp_path / "acts"
    with Nursery() as nursery:
        code, told = nursery.start("die_and_leave_a_fork", db=str(db), acts=str(acts)).wait()
        (fork,) = [message["fork"] for message in told if "fork" in message]
        witness = Witness(acts)
        witness.hear(told, died=True)
        nursery.run("create", db=str(db))
        os.kill(fork, signal.SIGKILL)
    examiner = Examiner(db, witness)
    assert (code, examiner.problems(at_rest=True)) == (-signal.SIGKILL, [])
    assert [call.endings for call in examiner.calls.values()] == [["unknown"]]

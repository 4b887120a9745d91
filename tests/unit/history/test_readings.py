"""Looking back in a server: few readers, each one thread's at a time, none opened twice or kept after a fault."""

from __future__ import annotations

import asyncio
import shutil
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_gate.history.readings import Readings, TookTooLongError
from agent_gate.ledger.sqlite.reader import SqliteReader
from agent_gate.ledger.sqlite.storage import SqliteStorage
from agent_gate.model.errors import StorageError
from agent_gate.ports.reading import NoLedgerError, Reader
from tests.unit.history.made import Made


class Counted(SqliteStorage):
    """Counts the readers that it opens."""

    opened = 0

    def reader(self, *, at_work: bool = False) -> SqliteReader:
        self.opened += 1
        return super().reader(at_work=at_work)


@pytest.fixture
def storage(copy: Made) -> Counted:
    return Counted(copy.db, steps_between_looks=1)


@pytest.fixture
async def readings(storage: Counted) -> AsyncIterator[Readings]:
    readings = Readings(storage, at_once=2)
    yield readings
    readings.close()


def count(reader: Reader) -> int:
    return reader.count_entries()


async def test_one_answer_after_the_other_takes_one_connection(storage: Counted, readings: Readings) -> None:
    answers = {await readings.ask(count) for _ in range(5)}
    assert (len(answers), storage.opened) == (1, 1)


async def test_no_more_are_asked_at_once_than_was_said_and_each_has_a_reader_of_its_own(
    storage: Counted, readings: Readings
) -> None:
    lock, at_work, most = threading.Lock(), set[int](), 0

    def slow(reader: Reader) -> None:
        nonlocal most
        with lock:
            assert id(reader) not in at_work
            at_work.add(id(reader))
            most = max(most, len(at_work))
        time.sleep(0.01)
        reader.count_entries()
        with lock:
            at_work.discard(id(reader))

    await asyncio.gather(*(readings.ask(slow) for _ in range(12)))
    assert (most, storage.opened) == (2, 2)


async def test_an_answer_that_takes_too_long_is_broken_off_and_the_next_one_is_not(readings: Readings) -> None:
    with pytest.raises(TookTooLongError, match="took longer than -1 s"):
        await readings.ask(count, -1)
    assert await readings.ask(count, 60) == await readings.ask(count)


async def test_a_reader_is_not_used_again_after_a_fault(storage: Counted, readings: Readings) -> None:
    def fails(reader: Reader) -> None:
        next(reader.entries())
        raise StorageError("no")

    with pytest.raises(StorageError):
        await readings.ask(fails)
    await readings.ask(count)
    assert storage.opened == 2


async def test_a_ledger_that_is_gone_is_told_though_a_reader_still_has_it_open(
    storage: Counted, readings: Readings
) -> None:
    await readings.ask(count)
    storage.path.unlink()
    with pytest.raises(NoLedgerError, match="is gone"):
        await readings.ask(count)


async def test_another_ledger_in_its_place_is_what_is_read(copy: Made, readings: Readings, tmp_path: Path) -> None:
    before = await readings.ask(count)
    other = tmp_path / "other.db"
    shutil.copy(copy.db, other)
    other.replace(copy.db)
    assert await readings.ask(count) == before
    assert (await readings.ask(lambda reader: reader.is_current())) is True


async def test_after_closing_nothing_stays_open(storage: Counted, readings: Readings) -> None:
    kept: list[Reader] = []
    await readings.ask(kept.append)
    readings.close()
    with pytest.raises(StorageError):
        kept[0].count_entries()

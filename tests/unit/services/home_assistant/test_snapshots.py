"""The ledger's copy of the home: brought in step every so often and at the end, and never by more than differs."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_gate.ledger.sqlite.ledger import SqliteLedger
from agent_gate.model.bounds import HOME_ATTRIBUTES_KEPT_BYTES_MAX, HOME_SNAPSHOT_BYTES_MAX, HOME_SNAPSHOT_ROWS_MAX
from agent_gate.model.committed import Applied, Committed
from agent_gate.model.errors import StorageError
from agent_gate.model.moment import iso
from agent_gate.model.service_tables import DropRows, PutRows, SetColumn
from agent_gate.model.work import Work
from agent_gate.services.home_assistant.home import Entity, Home
from agent_gate.services.home_assistant.snapshots import Snapshots, remembered
from agent_gate.services.home_assistant.tables import EntityRow, drop_entities, entity_snapshot, keep_entities
from tests.gates import NOON, CountedIds, HandClock, soon, until

HOUR_S = 3_600.0


class WatchedLedger(SqliteLedger):
    """Notes what is written; fails or stalls for as long as it is told to."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, HandClock(), CountedIds())
        self.works: list[Work] = []
        self.fault: Exception | None = None
        self.stalled: asyncio.Event | None = None

    async def commit(self, work: Work) -> Committed:
        self.works.append(work)
        if self.stalled:
            await self.stalled.wait()
        if self.fault:
            raise self.fault
        return await super().commit(work)


@pytest.fixture
async def ledger(tmp_path: Path) -> AsyncIterator[WatchedLedger]:
    ledger = WatchedLedger(tmp_path / "a.db")
    yield ledger
    await ledger.close()


def lamp(number: int, state: str = "off", **attributes: object) -> Entity:
    return Entity(f"light.lamp_{number}", state, attributes, "2026-03-04T11:00:00+00:00", f"{state} at eleven")


def home_of(*entities: Entity) -> Home:
    home = Home(HandClock())
    home.replace_entities(entities)
    home.in_step(live=True)
    return home


def hourly(home: Home, ledger: SqliteLedger) -> Snapshots:
    return Snapshots(home, ledger, HOUR_S)


def written(ledger: WatchedLedger) -> list[list[str]]:
    """The entities of each commit, with a minus where they go, or that all of them were seen."""
    told = []
    for work in ledger.works:
        (change,) = work.changes
        assert work.entries == ()
        if isinstance(change, PutRows):
            told.append([str(entity_id) for entity_id, *_ in change.rows])
        elif isinstance(change, SetColumn):
            told.append(["all seen"])
        else:
            assert isinstance(change, DropRows)
            told.append(["-" + str(entity_id) for (entity_id,) in change.keys])
    ledger.works.clear()
    return told


async def test_an_entity_is_kept_with_its_state_attributes_and_the_moment(ledger: WatchedLedger) -> None:
    await hourly(home_of(lamp(1, "on", brightness=7, friendly_name="Küche")), ledger).take()
    (row,) = await entity_snapshot(ledger)
    assert (row.entity_id, row.state, row.last_updated, row.captured_at) == (
        "light.lamp_1",
        "on",
        "on at eleven",
        iso(NOON),
    )
    assert json.loads(row.attributes or "") == {"brightness": 7, "friendly_name": "Küche"}


async def test_only_what_changed_is_written_again_and_what_is_gone_goes(ledger: WatchedLedger) -> None:
    home = home_of(lamp(1), lamp(2), lamp(3))
    kept = hourly(home, ledger)
    await kept.take()
    assert written(ledger) == [["light.lamp_1", "light.lamp_2", "light.lamp_3"]]
    await kept.take()
    assert written(ledger) == []
    home.put(lamp(2, "on"))
    home.drop("light.lamp_3")
    await kept.take()
    assert written(ledger) == [["-light.lamp_3"], ["light.lamp_2"]]
    assert [(row.entity_id, row.state) for row in await entity_snapshot(ledger)] == [
        ("light.lamp_1", "off"),
        ("light.lamp_2", "on"),
    ]


async def test_a_gate_that_starts_again_writes_only_what_changed_meanwhile(ledger: WatchedLedger) -> None:
    await hourly(home_of(lamp(1), lamp(2)), ledger).take()
    ledger.works.clear()
    await hourly(home_of(lamp(1), lamp(2, "on")), ledger).take()
    assert written(ledger) == [["light.lamp_2"], ["all seen"]]


async def test_a_home_that_was_not_read_yet_leaves_what_was_known(ledger: WatchedLedger) -> None:
    await hourly(home_of(lamp(1)), ledger).take()
    unread = hourly(Home(HandClock()), ledger)
    await unread.take()
    await unread.close()
    assert [row.entity_id for row in await entity_snapshot(ledger)] == ["light.lamp_1"]


async def test_a_large_home_is_written_and_emptied_in_parts(ledger: WatchedLedger) -> None:
    many = 2 * HOME_SNAPSHOT_ROWS_MAX + 1
    home = home_of(*(lamp(number) for number in range(many)))
    kept = hourly(home, ledger)
    await kept.take()
    assert [len(part) for part in written(ledger)] == [HOME_SNAPSHOT_ROWS_MAX, HOME_SNAPSHOT_ROWS_MAX, 1]
    home.replace_entities([])
    await kept.take()
    assert [len(part) for part in written(ledger)] == [HOME_SNAPSHOT_ROWS_MAX, HOME_SNAPSHOT_ROWS_MAX, 1]
    assert await entity_snapshot(ledger) == []


async def test_heavy_entities_are_written_few_at_a_time_and_the_heaviest_without_attributes(
    ledger: WatchedLedger,
) -> None:
    heavy = [lamp(number, text="x" * (HOME_ATTRIBUTES_KEPT_BYTES_MAX - 100)) for number in range(40)]
    too_heavy = lamp(99, text="x" * HOME_ATTRIBUTES_KEPT_BYTES_MAX)
    await hourly(home_of(*heavy, too_heavy), ledger).take()
    a_part = HOME_SNAPSHOT_BYTES_MAX // HOME_ATTRIBUTES_KEPT_BYTES_MAX + 1
    assert [len(part) for part in written(ledger)] == [a_part, a_part, 41 - 2 * a_part]
    assert [row.entity_id for row in await entity_snapshot(ledger) if row.attributes is None] == ["light.lamp_99"]


async def test_it_is_taken_again_and_again_also_after_the_ledger_failed(
    ledger: WatchedLedger, caplog: pytest.LogCaptureFixture
) -> None:
    home = home_of(lamp(1))
    ledger.fault = StorageError("the disk is full")
    often = Snapshots(home, ledger, 0.001)
    with caplog.at_level(logging.WARNING):
        often.start()
        await until(lambda: len(ledger.works) > 2)
    ledger.fault = None
    await until(lambda: ledger.works and ledger.figures().works)
    home.put(lamp(1, "on"))
    home.put(lamp(2))
    await until(lambda: ["light.lamp_1", "light.lamp_2"] in written(ledger))
    await soon(often.close())
    assert "the disk is full" in caplog.text


async def test_closing_keeps_the_home_a_last_time_and_no_more(ledger: WatchedLedger) -> None:
    home = home_of(lamp(1))
    kept = hourly(home, ledger)
    kept.start()
    await soon(kept.close())
    assert [row.state for row in await entity_snapshot(ledger)] == ["off"]
    home.put(lamp(1, "on"))
    await asyncio.sleep(0)
    assert written(ledger) == [["light.lamp_1"]]


async def test_closing_does_not_fail_or_wait_for_a_ledger_that_does(
    ledger: WatchedLedger, caplog: pytest.LogCaptureFixture
) -> None:
    ledger.fault = StorageError("the disk is full")
    await soon(hourly(home_of(lamp(1)), ledger).close())
    ledger.stalled = asyncio.Event()
    await soon(Snapshots(home_of(lamp(1)), ledger, HOUR_S, close_s=0.01).close())
    assert ["the disk is full" in caplog.text, "the ledger is too slow" in caplog.text] == [True, True]


async def test_what_was_forgotten_by_retention_is_captured_again_while_the_home_has_it(ledger: WatchedLedger) -> None:
    kept = hourly(home_of(lamp(1), lamp(2)), ledger)
    await kept.take()
    assert isinstance(await ledger.commit(Work("_gate", changes=(drop_entities(("light.lamp_1",)),))), Applied)
    ledger.works.clear()
    await kept.take()
    assert written(ledger) == [["light.lamp_1"]]


async def test_each_entity_says_when_the_home_was_last_seen_also_where_it_did_not_change(ledger: WatchedLedger) -> None:
    clock = HandClock()
    home = Home(clock)
    home.replace_entities([lamp(1), lamp(2)])
    home.in_step(live=True)
    kept = Snapshots(home, ledger, HOUR_S)
    await kept.take()
    clock.advance(300)
    home.put(lamp(2, "on"))
    await kept.take()
    assert {row.captured_at for row in await entity_snapshot(ledger)} == {iso(NOON + 300)}


async def test_a_home_that_is_away_was_last_seen_when_it_went_and_is_not_written_again(ledger: WatchedLedger) -> None:
    clock = HandClock()
    home = Home(clock)
    home.replace_entities([lamp(1), lamp(2)])
    home.in_step(live=True)
    kept = Snapshots(home, ledger, HOUR_S)
    await kept.take()
    clock.advance(100)
    home.put(lamp(2, "on"))
    home.out_of_step()
    clock.advance(900)
    await kept.take()
    assert {row.captured_at for row in await entity_snapshot(ledger)} == {iso(NOON + 100)}
    ledger.works.clear()
    clock.advance(900)
    await kept.take()
    assert written(ledger) == []


async def test_what_was_kept_is_remembered_with_the_moment_and_what_was_too_much_to_keep(ledger: WatchedLedger) -> None:
    heavy = lamp(9, text="x" * HOME_ATTRIBUTES_KEPT_BYTES_MAX)
    await hourly(home_of(lamp(1, "on", brightness=7), heavy), ledger).take()
    found = await remembered(ledger)
    assert found is not None
    assert [(entity.entity_id, entity.state, entity.attributes) for entity in found.entities] == [
        ("light.lamp_1", "on", {"brightness": 7}),
        ("light.lamp_9", "off", {}),
    ]
    assert (found.captured_at, set(found.without_attributes)) == (NOON, {"light.lamp_9"})


async def test_a_ledger_that_never_saw_a_home_remembers_none(ledger: WatchedLedger) -> None:
    assert await remembered(ledger) is None


@pytest.mark.parametrize("spoilt", [{"attributes": "{"}, {"attributes": "[]"}, {"captured_at": "yesterday"}])
async def test_rows_that_somebody_spoilt_are_passed_over(ledger: WatchedLedger, spoilt: dict[str, str]) -> None:
    fields = {"attributes": "{}", "captured_at": iso(NOON), **spoilt}
    rows = (
        EntityRow("light.a", "on", fields["attributes"], "", fields["captured_at"]),
        EntityRow("light.b", "on", "{}", "", iso(NOON - 5)),
    )
    assert isinstance(await ledger.commit(Work("_gate", changes=(keep_entities(rows),))), Applied)
    found = await remembered(ledger)
    assert found is not None
    assert ([entity.entity_id for entity in found.entities], found.captured_at) == (["light.b"], NOON - 5)

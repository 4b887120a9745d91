"""Erasing takes a call's content out of every file, leaves a chain that verifies, and says what it left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from agent_gate import Gate
from agent_gate.history.erase import CALLS_PER_ENTRY_MAX, Erased, erase_call, retain
from agent_gate.history.query import call
from agent_gate.history.verify import verify
from agent_gate.ledger.sqlite.ledger import SqliteLedger
from agent_gate.ledger.sqlite.reader import open_reader
from agent_gate.model.codec import canonical, restore
from agent_gate.model.entry import Draft, Entry, Kind
from agent_gate.model.errors import GateError
from agent_gate.model.moment import iso
from agent_gate.model.work import Open, QueueEffect, Work
from agent_gate.services.home_assistant.tables import EntityRow, entity_snapshot, keep_entities
from tests.unit.history.made import IDS, START, SteppingClock, ask_and_answer, gate_at, ledger_of

DAY_S = 86_400


async def erase(gate: Gate, call_id: str) -> Erased:
    return await erase_call(ledger_of(gate), call_id, by="anna", clock=gate.clock, ids=IDS)


async def keep(gate: Gate, days: float) -> Erased:
    return await retain(ledger_of(gate), days, by="anna", clock=gate.clock, ids=IDS)


def entries_of(path: Path, call_id: str) -> list[Entry]:
    with closing(open_reader(path)) as reader:
        return call(reader, call_id)


def holds(folder: Path, content: bytes) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file() and content in path.read_bytes()]


async def test_content_of_an_erased_call_is_in_no_file_any_more(tmp_path: Path) -> None:
    async with gate_at(tmp_path / "a.db") as gate:
        small = await gate.call("note.write", text="pass phrase seventeen")
        large = await gate.call("echo", text="pass phrase eighteen ", times=5_000)
        assert holds(tmp_path, b"pass phrase")
        await erase(gate, small.call_id)
        await erase(gate, large.call_id)
        assert holds(tmp_path, b"pass phrase") == []
        result = await gate.result(large.call_id)
        assert result is not None
        assert (result.message, result.data) == ("erased", None)
    assert verify(tmp_path / "a.db").to_json() | {"entries": 0} == {
        "ok": True, "entries": 0, "projects": 2, "erased": 3, "anchor": "ok", "unanchored": {}, "problems": [],
    }  # fmt: skip


async def test_a_refused_signature_is_forgotten_with_the_call(tmp_path: Path) -> None:
    async with gate_at(tmp_path / "a.db") as gate:
        refused = await ask_and_answer(gate, "secret-lover", approve=False)
        assert await gate.ledger.denied_since("default", "mail.send(secret-lover)", 0)
        await erase(gate, refused.call_id)
        assert not await gate.ledger.denied_since("default", "mail.send(secret-lover)", 0)


async def test_every_entry_of_the_call_becomes_a_tombstone_and_an_entry_says_so(tmp_path: Path) -> None:
    async with gate_at(tmp_path / "a.db") as gate:
        done = await ask_and_answer(gate, "bob", approve=True)
        kept = await gate.call("echo", text="kept")
        erased = await erase(gate, done.call_id)
    assert erased == Erased(1, 4, ("default",), 0)
    before = entries_of(tmp_path / "a.db", done.call_id)
    assert [(entry.kind, entry.body, entry.signature) for entry in before] == [
        (kind, None, None) for kind in ("held", "answered", "performing", "settled")
    ]
    (untouched,) = entries_of(tmp_path / "a.db", kept.call_id)
    assert untouched.body is not None
    with closing(open_reader(tmp_path / "a.db")) as reader:
        (body,) = reader.row("SELECT body FROM entries WHERE kind = 'erased'")
    told = restore(body.encode())
    assert (told["calls"], told["by"]) == ([done.call_id], "anna")


async def test_states_that_an_erased_call_made_stay_and_are_counted(tmp_path: Path) -> None:
    async with gate_at(tmp_path / "a.db") as gate:
        first = await gate.call("state.set", path="n", value=1)
        await gate.call("state.set", path="n", value=2)
        last = await gate.call("state.set", path="n", value=3)
        assert (await erase(gate, first.call_id)).snapshots_kept == 1
        assert (await erase(gate, last.call_id)).snapshots_kept == 1
        assert (await gate.ledger.state("default")).document == {"n": 3}
        await gate.call("state.set", path="n", value=4)
    assert verify(tmp_path / "a.db").ok


async def test_a_call_that_was_erased_before_changes_nothing(tmp_path: Path) -> None:
    async with gate_at(tmp_path / "a.db") as gate:
        done = await gate.call("echo", text="x")
        await erase(gate, done.call_id)
        entries = verify(tmp_path / "a.db").entries
        assert await erase(gate, done.call_id) == Erased(0, 0, (), 0)
    assert verify(tmp_path / "a.db").entries == entries


async def test_an_open_call_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    async with gate_at(tmp_path / "a.db") as gate:
        asked = await gate.call("mail.send", to="bob", request_id="r", wait=False)
        with pytest.raises(GateError, match="is still open") as refused:
            await erase(gate, asked.call_id)
        assert await keep(gate, 0) == Erased(0, 0, (), 0)
    (held,) = entries_of(tmp_path / "a.db", asked.call_id)
    assert (refused.value.code, held.body is None) == (2002, False)


def _performing(call_id: str) -> Work:
    return Work("default", (_draft(Kind.PERFORMING, call_id),), (Open("call", call_id),))


def _with_an_effect_to_come(call_id: str) -> Work:
    return Work("default", (_draft(Kind.SETTLED, call_id),), (QueueEffect("e", call_id, "t", b"{}"),))


def _draft(kind: Kind, call_id: str) -> Draft:
    return Draft(kind, iso(START), canonical({"salt": "s", "signatures": []}), call_id, status="success")


@pytest.mark.parametrize("work", [_performing, _with_an_effect_to_come])
async def test_a_call_whose_act_or_effect_is_under_way_is_refused(tmp_path: Path, work: Callable[[str], Work]) -> None:
    clock = SteppingClock()
    ledger = SqliteLedger(tmp_path / "a.db", clock, IDS)
    await ledger.commit(work("c"))
    with pytest.raises(GateError, match="is still open"):
        await erase_call(ledger, "c", by="anna", clock=clock, ids=IDS)
    await ledger.close()


async def test_an_unknown_call_is_a_coded_error(tmp_path: Path) -> None:
    async with gate_at(tmp_path / "a.db") as gate:
        with pytest.raises(GateError) as unknown:
            await erase(gate, "nothing")
        assert unknown.value.code == 2002


async def test_retaining_erases_what_ended_before_and_nothing_younger(tmp_path: Path) -> None:
    clock = SteppingClock()
    async with gate_at(tmp_path / "a.db", clock) as gate:
        old = [(await gate.call("note.write", text=f"old {number}")).call_id for number in range(3)]
        elsewhere = (await gate.call("echo", text="x", project="nowhere")).call_id
        clock.at += 10 * DAY_S
        young = (await gate.call("echo", text="young")).call_id
        assert await keep(gate, 30) == Erased(0, 0, (), 0)
        assert await keep(gate, 5) == Erased(4, 7, ("_gate", "default"), 0)
        assert await keep(gate, 5) == Erased(0, 0, (), 0)
    for call_id in (*old, elsewhere):
        assert all(entry.body is None for entry in entries_of(tmp_path / "a.db", call_id))
    assert entries_of(tmp_path / "a.db", young)[0].body is not None
    report = verify(tmp_path / "a.db")
    assert (report.ok, report.erased) == (True, 7)


async def test_retaining_names_a_bounded_number_of_calls_in_each_entry(tmp_path: Path) -> None:
    calls = CALLS_PER_ENTRY_MAX * 2 + 1
    async with gate_at(tmp_path / "a.db") as gate:
        await asyncio.gather(*(gate.call("echo", text="x") for _ in range(calls)))
        assert (await keep(gate, 0)).calls == calls
        with closing(open_reader(tmp_path / "a.db")) as reader:
            sizes = [
                len(restore(body.encode())["calls"])
                for (body,) in reader.connection.execute("SELECT body FROM entries WHERE kind = 'erased' ORDER BY id")
            ]
    assert sizes == [CALLS_PER_ENTRY_MAX, CALLS_PER_ENTRY_MAX, 1]
    assert verify(tmp_path / "a.db").erased == calls


async def test_facts_about_the_gate_itself_are_never_erased(tmp_path: Path) -> None:
    async with gate_at(tmp_path / "a.db") as gate:
        await gate.call("echo", text="x")
        await keep(gate, 0)
        await keep(gate, 0)
        with closing(open_reader(tmp_path / "a.db")) as reader:
            kinds = reader.connection.execute("SELECT kind FROM entries WHERE body IS NOT NULL ORDER BY id").fetchall()
    assert kinds == [("policy",), ("tools",), ("erased",)]


@pytest.mark.parametrize("days", [-1, float("nan"), float("inf")])
async def test_a_number_of_days_that_makes_no_sense_is_a_coded_error(tmp_path: Path, days: float) -> None:
    async with gate_at(tmp_path / "a.db") as gate:
        with pytest.raises(GateError) as refused:
            await keep(gate, days)
        assert refused.value.code == 2002


async def test_retaining_forgets_entities_of_a_home_that_were_captured_before(tmp_path: Path) -> None:
    clock = SteppingClock()
    async with gate_at(tmp_path / "a.db", clock) as gate:
        now = clock.now()
        rows = [
            EntityRow(f"light.{name}", "pass phrase" if age else "on", "{}", "x", iso(now - age * DAY_S))
            for name, age in (("old", 31), ("young", 0))
        ]
        await gate.ledger.commit(Work("_gate", changes=(keep_entities(tuple(rows)),)))
        assert await keep(gate, 30) == Erased(0, 0, (), 0, entities=1)
        assert await entity_snapshot(gate.ledger) == rows[1:]
        assert holds(tmp_path, b"pass phrase") == []
        assert (await keep(gate, 30)).to_json()["entities"] == 0

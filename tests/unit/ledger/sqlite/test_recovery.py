"""What a ledger that opens or reopens says of open work: nothing of what somebody here still works on."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from agent_gate import run_plan, tool
from agent_gate.ledger.sqlite.bounds import LedgerBounds
from agent_gate.ledger.sqlite.ledger import SqliteLedger
from agent_gate.ledger.sqlite.reader import open_reader
from agent_gate.ledger.sqlite.recovery import owed_work
from agent_gate.model.codec import canonical, restore
from agent_gate.model.committed import Applied
from agent_gate.model.entry import Draft, Kind
from agent_gate.model.moment import iso
from agent_gate.model.plan import Plan, PlanStep
from agent_gate.model.work import Open, Work
from tests.gates import ALLOW_ALL, NOON, CountedIds, HandClock, a_gate, entries, soon


async def test_a_run_that_is_under_way_here_is_not_ended_when_the_writer_reopens(tmp_path: Path) -> None:
    at_once = LedgerBounds(writer_reopen_after_s=0.0)
    begun, go_on = asyncio.Event(), asyncio.Event()

    @tool("wait.here", effect="write", cost=0)
    async def wait_here() -> None:
        begun.set()
        await go_on.wait()

    async with a_gate(tmp_path, ALLOW_ALL, wait_here, ledger_bounds=at_once) as gate:
        running = asyncio.create_task(run_plan(gate, Plan((PlanStep("wait.here", {}),), name="n")))
        await soon(begun.wait())
        assert isinstance(gate.ledger, SqliteLedger)
        gate.ledger._writer._stop(sqlite3.OperationalError("disk I/O error"))
        assert isinstance(await gate.ledger.commit(Work("default")), Applied)
        assert [entry["status"] for entry in entries(gate, "run")] == ["running"]
        assert entries(gate, "settled") == []
        go_on.set()
        result = await soon(running)
        assert (result.status, [entry["status"] for entry in entries(gate, "run")]) == (
            "completed",
            ["running", "completed"],
        )


@pytest.mark.parametrize("is_live", [True, False])
async def test_only_a_run_that_nobody_here_works_on_is_owed_an_end(tmp_path: Path, is_live: bool) -> None:
    clock, ids = HandClock(), CountedIds()
    ledger = SqliteLedger(tmp_path / "a.db", clock, ids)
    begin = Draft(
        Kind.RUN, iso(NOON), canonical({"instance": ledger.instance, "mode": "live"}), run_id="r-1", status="running"
    )
    assert isinstance(await ledger.commit(Work("default", (begin,), (Open("run", "r-1"),))), Applied)
    with closing(open_reader(tmp_path / "a.db")) as reader:
        live = {"r-1"} if is_live else set()
        works = owed_work(reader.connection, ledger.files, ledger.instance, live, clock, ids.salt)
    await ledger.close()
    if is_live:
        assert works == []
        return
    ((draft,),) = (work.entries for work in works)
    assert (draft.run_id, draft.status, restore(draft.body)["error"]["code"]) == ("r-1", "failed", 2007)

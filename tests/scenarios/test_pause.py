"""The switch that stops everything: who turned it is recorded, and nothing passes until it is turned back."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_gate.gate.approvals import Approvals
from agent_gate.model.outcome import Status
from tests.gates import (
    ALLOW_ALL,
    ANNA,
    ASK_ALL,
    BOB,
    a_gate,
    approve,
    code_of,
    counter,
    entries,
    outcome_of,
    pending,
    reader,
    sender,
)


@pytest.mark.parametrize("tool", ["mail.send", "note.read", "counter.add"])
async def test_nothing_passes_while_the_gate_is_paused(tmp_path: Path, tool: str) -> None:
    acts: list[str] = []
    async with a_gate(tmp_path, ALLOW_ALL, sender(acts), reader(acts), counter()) as gate:
        approvals = Approvals(gate)
        assert await approvals.pause(ANNA, "something is odd")
        assert await approvals.paused()
        outcome = await gate.call(tool)
        assert (outcome.status, code_of(outcome), acts) == (Status.DENIED, 1017, [])
        assert outcome.error is not None
        assert "paused" in outcome.error.detail
        assert "resume" in outcome.error.suggestion
        assert await approvals.resume(BOB)
        assert (await gate.call(tool)).status is Status.SUCCESS


async def test_both_turns_of_the_switch_are_entries_and_turning_it_twice_is_one(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOW_ALL) as gate:
        approvals = Approvals(gate)
        assert [await approvals.pause(ANNA, "odd"), await approvals.pause(BOB)] == [True, False]
        assert [await approvals.resume(BOB), await approvals.resume(BOB)] == [True, False]
        said = [(row["project"], row["status"], row["body"]["by"]) for row in entries(gate, "project")]
        assert said == [("_gate", "paused", "anna"), ("_gate", "open", "bob")]
        assert entries(gate, "project")[0]["body"]["reason"] == "odd"


@pytest.mark.parametrize("tool", ["mail.send", "note.read", "counter.add"])
async def test_what_was_approved_while_the_gate_is_paused_is_not_performed(tmp_path: Path, tool: str) -> None:
    acts: list[str] = []
    async with a_gate(tmp_path, ASK_ALL, sender(acts), reader(acts), counter()) as gate:
        asked = await pending(gate, tool)
        await Approvals(gate).pause(ANNA)
        await approve(gate, asked)
        outcome = await outcome_of(gate, asked)
        assert (outcome.status, code_of(outcome), acts) == (Status.DENIED, 1017, [])
        assert (await gate.ledger.state("default")).version == 0


async def test_a_pause_holds_for_every_process_and_over_a_restart(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOW_ALL, sender([])) as gate, a_gate(tmp_path, ALLOW_ALL, sender([])) as other:
        assert (await other.call("mail.send")).status is Status.SUCCESS
        await Approvals(gate).pause(ANNA)
        assert code_of(await other.call("mail.send")) == 1017
    async with a_gate(tmp_path, ALLOW_ALL, sender([])) as gate:
        assert code_of(await gate.call("mail.send")) == 1017


async def test_an_answer_that_does_not_count_is_recorded(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ASK_ALL, sender([])) as gate:
        asked = await pending(gate, "mail.send")
        await approve(gate, asked)
        await outcome_of(gate, asked)
        with pytest.raises(Exception, match="open"):
            await approve(gate, asked, BOB)
        (entry,) = entries(gate, "door")
        refused = entry["body"]["refused_answer"]
        assert (refused["by"], refused["answer"], refused["call_id"]) == ("bob", "approve", asked.call_id)
        assert refused["error"]["code"] == 6003

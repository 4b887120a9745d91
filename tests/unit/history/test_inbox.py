"""The open questions at one moment, and the mark that changes when they do."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from agent_gate import Gate, tool
from agent_gate.gate.approvals import Approvals
from agent_gate.history import inbox
from agent_gate.ledger.sqlite.reader import open_reader
from tests.gates import ANNA, ASK_ALL, BOB, HandClock, a_gate, approve, deny, outcome_of, pending

TWO = {**ASK_ALL, "approvals": [{"min_cost": 1, "approvers_required": 2}]}


@tool("mail.send", effect="write", cost=1)
async def send(text: str = "") -> None: ...


def mark(gate: Gate, db: Path) -> inbox.Mark:
    with closing(open_reader(db)) as reader:
        return inbox.mark(reader, gate.clock)


async def test_the_mark_changes_with_every_question_approval_and_switch_and_with_nothing_else(tmp_path: Path) -> None:
    db = tmp_path / "gate.db"
    async with a_gate(tmp_path, TWO, send) as gate:
        marks = [mark(gate, db)]
        question = await pending(gate, "mail.send", {"text": "x"})
        marks.append(mark(gate, db))
        await approve(gate, question, ANNA)
        marks.append(mark(gate, db))
        await gate.call("state.get", path="/nothing", wait=False)
        await Approvals(gate).pause(ANNA)
        marks.append(mark(gate, db))
        assert mark(gate, db) == marks[-1]
        await deny(gate, question, BOB)
        await outcome_of(gate, question)
        marks.append(mark(gate, db))
    assert len({one.digest for one in marks}) == 5
    assert [(one.count, one.paused) for one in marks] == [(0, False), (1, False), (1, False), (2, True), (1, True)]


async def test_the_oldest_come_first_without_their_arguments_and_none_after_its_deadline(tmp_path: Path) -> None:
    clock = HandClock()
    async with a_gate(tmp_path, ASK_ALL, send, clock=clock, approval_timeout_s=60) as gate:
        asked: list[Any] = []
        for number in range(3):
            asked.append(await pending(gate, "mail.send", {"text": f"{number}" * 1_000}))
            clock.advance(10)
        with closing(open_reader(tmp_path / "gate.db")) as reader:
            found = inbox.first_questions(reader, clock, 2)
            assert [question.call_id for question, _ in found] == [one.call_id for one in asked[:2]]
            assert [(question.args, approved_by) for question, approved_by in found] == [({}, ())] * 2
            assert [len(question.signatures[0]) for question, _ in found] == [201, 201]
            assert found[0][0].nonce == asked[0].nonce
            clock.advance(60)
            assert inbox.first_questions(reader, clock, 2) == []
            assert reader.resolution(asked[0].call_id) is None
            assert reader.resolution("nobody") is None

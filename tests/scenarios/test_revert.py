"""Reverting: calls like any other, judged and recorded, that bring back what was before."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import jsonpatch
import pytest

from agent_gate import Gate
from agent_gate.history.replay import replay_transitions
from agent_gate.ledger.sqlite.reader import open_reader
from agent_gate.model.outcome import Outcome, Status
from agent_gate.model.tool import Json
from agent_gate.services import revert
from agent_gate.services.state import StateService
from tests.gates import (
    ALLOW_ALL,
    a_gate,
    agent,
    approve,
    code_of,
    counter,
    entries,
    outcome_of,
    pending,
    projects,
    rows,
    sender,
)
from tests.state_record import state_problems

ADMIN = agent("boss", roles=("admin",), projects=("*",))


async def set_to(gate: Gate, value: Json, path: str = "x") -> Outcome:
    outcome = await gate.call("state.set", path=path, value=value)
    assert outcome.ok, outcome
    return outcome


async def state(gate: Gate) -> Json:
    return (await gate.ledger.state("default")).document


async def test_an_earlier_snapshot_becomes_the_state_again_and_history_stays(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOW_ALL) as gate:
        first = await set_to(gate, 1)
        await set_to(gate, 2)
        outcome = await gate.call("state.revert", snapshot_id=first.snapshot_id)
        assert (outcome.ok, outcome.state_version, await state(gate)) == (True, 3, {"x": 1})
        assert outcome.signatures == (f"state.revert({first.snapshot_id})",)
        assert outcome.snapshot_id not in (None, first.snapshot_id)
        assert [row["version"] for row in rows(gate, "SELECT version FROM snapshots ORDER BY version")] == [1, 2, 3]
        [reverted] = entries(gate, "reverted")
        assert (reverted["call_id"], reverted["body"]["resources"]) == (outcome.call_id, {"to_version": 1})


async def test_the_initial_state_has_a_snapshot_id_by_which_revert_reaches_it(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOW_ALL, agent=ADMIN) as gate:
        await projects(gate).create("home", initial_state={"lamps": []})
        await gate.call("state.set", path="/lamps", value=["hall"], project="home")
        await set_to(gate, 1)
        outcomes = [
            await gate.call("state.revert", snapshot_id="initial", project=name) for name in ("home", "default")
        ]
        assert [outcome.signatures for outcome in outcomes] == [("state.revert(initial)",)] * 2
        assert [outcome.state_version for outcome in outcomes] == [2, 2]
        assert (await gate.ledger.state("home")).document == {"lamps": []}
        assert await state(gate) == {}
    assert [state_problems(tmp_path / "gate.db", ALLOW_ALL)] == [[]]


async def test_another_project_s_snapshot_is_refused(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOW_ALL, agent=agent(projects=("*",))) as gate:
        await projects(gate).create("home")
        ours = await set_to(gate, 1)
        theirs = await gate.call("state.set", path="x", value=9, project="home")
        for project, snapshot_id in (("default", theirs.snapshot_id), ("home", ours.snapshot_id), ("home", "none")):
            outcome = await gate.call("state.revert", snapshot_id=snapshot_id, project=project)
            assert (outcome.status, code_of(outcome)) == (Status.ERROR, 2002)
        for project, call_id in (("default", theirs.call_id), ("home", ours.call_id), ("home", "none")):
            outcome = await gate.call("gate.revert", call_id=call_id, project=project, agent=ADMIN)
            assert (outcome.status, code_of(outcome)) == (Status.ERROR, 2002)
        assert await state(gate) == {"x": 1}
        assert entries(gate, "reverted") == []


async def test_without_a_rule_a_revert_asks_and_with_a_deny_it_is_denied(tmp_path: Path) -> None:
    policy = {"rules": [{"pattern": "state.set*", "action": "allow"}]}
    async with a_gate(tmp_path, policy) as gate:
        first = await set_to(gate, 1)
        second = await set_to(gate, 2)
        asked = await pending(gate, "state.revert", {"snapshot_id": first.snapshot_id})
        await approve(gate, asked)
        assert ((await outcome_of(gate, asked)).ok, await state(gate)) == (True, {"x": 1})
        undo = await pending(gate, "gate.revert", {"call_id": second.call_id}, agent=ADMIN)
        assert undo.signatures == (f"gate.revert({second.call_id})", f"state.revert({first.snapshot_id})")


async def test_a_revert_needs_its_role_and_every_signature_counts(tmp_path: Path) -> None:
    policy = {"rules": [{"pattern": "*", "action": "allow"}, {"pattern": "state.revert(*", "action": "deny"}]}
    async with a_gate(tmp_path, policy) as gate:
        first = await set_to(gate, 1)
        assert code_of(await gate.call("gate.revert", call_id=first.call_id)) in (1001, 1009)
        assert code_of(await gate.call("gate.revert", call_id=first.call_id, agent=ADMIN)) == 1001
        assert await state(gate) == {"x": 1}
    async with a_gate(tmp_path, ALLOW_ALL) as gate:
        assert code_of(await gate.call("gate.revert", call_id=first.call_id)) == 1009


async def test_undoing_a_call_leaves_what_came_later(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOW_ALL, agent=ADMIN) as gate:
        await set_to(gate, 1)
        second = await set_to(gate, 2)
        await set_to(gate, "kept", "y")
        outcome = await gate.call("gate.revert", call_id=second.call_id)
        assert (outcome.ok, await state(gate)) == (True, {"x": 1, "y": "kept"})
        [reverted] = entries(gate, "reverted")
        assert reverted["body"]["resources"] == {"call_id": second.call_id, "to_version": 1}


async def test_undoing_the_first_call_of_all_brings_back_the_initial_state(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOW_ALL, counter(), agent=ADMIN) as gate:
        await projects(gate).create("home", {"n": 5})
        first = await gate.call("counter.add", project="home")
        outcome = await gate.call("gate.revert", call_id=first.call_id, project="home")
        assert outcome.signatures == (f"gate.revert({first.call_id})", "state.revert(initial)")
        assert (await gate.ledger.state("home")).document == {"n": 5}


@pytest.mark.parametrize(
    ("before", "called", "later"),
    [
        ({"x": 1}, {"x": 2}, {"x": 3}),
        ({"a": 1}, {"b": 1}, {"b": 2}),
        ({"list": []}, {"list": [1, 2, 3]}, {"list": [1, 9, 3]}),
        ({"list": [1, 2, 3]}, {"list": [1, 3]}, {"list": [0, 1, 3]}),
        ({"x": {"deep": 1}}, {"x": {"deep": 2}}, {"x": 7}),
        ({"x": 1}, {}, {"x": 5}),
    ],
)
async def test_undoing_a_call_is_refused_where_the_same_place_changed_since(
    tmp_path: Path, before: Json, called: Json, later: Json
) -> None:
    async with a_gate(tmp_path, ALLOW_ALL, agent=ADMIN) as gate:
        await set_to(gate, before, "")
        call = await set_to(gate, called, "")
        await set_to(gate, later, "")
        outcome = await gate.call("gate.revert", call_id=call.call_id)
        assert (outcome.status, code_of(outcome), await state(gate)) == (Status.ERROR, 2003, later)
        assert "has changed since" in str(outcome.error)
        assert entries(gate, "reverted") == []


async def test_a_call_that_changed_no_state_cannot_be_undone(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOW_ALL, sender([]), agent=ADMIN) as gate:
        sent = await gate.call("mail.send")
        outcome = await gate.call("gate.revert", call_id=sent.call_id)
        assert (outcome.status, code_of(outcome)) == (Status.ERROR, 2002)


async def test_a_revert_must_fit_the_project_s_schema_and_can_itself_be_undone(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOW_ALL, agent=ADMIN) as gate:
        first = await set_to(gate, 1)
        await set_to(gate, 2)
        back = await gate.call("state.revert", snapshot_id=first.snapshot_id)
        assert await state(gate) == {"x": 1}
        assert (await gate.call("gate.revert", call_id=back.call_id)).ok
        assert await state(gate) == {"x": 2}


async def test_what_an_earlier_release_took_back_by_another_patch_replays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pure = {registered.declaration.name: registered.transition for registered in StateService().registered_tools()}

    def by_patch(before: Json, after: Json, now: Json) -> Json:
        return jsonpatch.make_patch(after, before).apply(now)

    async with a_gate(tmp_path, ALLOW_ALL, agent=ADMIN) as gate:
        await set_to(gate, [2, 0, 1])
        changed = await set_to(gate, [0, 0])
        await set_to(gate, 9, "x.-")
        refused = await gate.call("gate.revert", call_id=changed.call_id)
        assert refused.error is not None
        assert refused.error.detail == f"`/x/2` has changed since call `{changed.call_id}`"
        monkeypatch.setattr(revert, "taken_back", by_patch)
        assert (await gate.call("gate.revert", call_id=changed.call_id)).ok
        assert await state(gate) == {"x": [2, 0, 1, 9]}
    with closing(open_reader(tmp_path / "gate.db")) as connection:
        assert replay_transitions(connection, "default", pure.get) == []

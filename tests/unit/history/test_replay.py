"""Replaying the ledger's transitions gives the recorded states, and shows each place where it would not."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_gate.history.replay import Difference, NotRecomputed, replay_transitions
from agent_gate.ledger.sqlite.reader import open_reader
from agent_gate.ports.tools import NewState, Transition
from agent_gate.services.state import StateService
from agent_gate.toolkit import registered_tool
from tests.unit.history.made import ANNA, Made, count_up, erase, gate_at

TRANSITIONS = {
    registered.declaration.name: registered.transition
    for registered in (*StateService().registered_tools(), registered_tool(count_up))
}

KEYS = st.sampled_from(["a", "b", "n", "a.b", "/b/0", "", "state_version"])
NUMBERS = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=5,
)
ADDITIONS = st.fixed_dictionaries({"op": st.just("add"), "path": st.sampled_from(["/x", "/y/-", ""]), "value": VALUES})
CALLS = st.one_of(
    st.tuples(st.just("state.set"), st.fixed_dictionaries({"path": KEYS, "value": VALUES})),
    st.tuples(st.just("state.delete"), st.fixed_dictionaries({"path": KEYS})),
    st.tuples(st.just("state.get"), st.fixed_dictionaries({"path": KEYS})),
    st.tuples(st.just("count.up"), st.fixed_dictionaries({"by": st.integers(-9, 9)})),
    st.tuples(
        st.just("state.patch"),
        st.fixed_dictionaries({"patch": st.lists(ADDITIONS, max_size=2)}),
    ),
    st.tuples(st.sampled_from(["state.revert", "gate.revert"]), st.just({})),
)


async def play(db: Path, calls: list[tuple[str, dict[str, Any]]]) -> None:
    """A revert takes whatever the last change of the state was."""
    last: dict[str, Any] = {}
    async with gate_at(db) as gate:
        for tool, args in calls:
            outcome = await gate.call(tool, {name: last.get(name, "none") for name in _NEEDS.get(tool, ())} | args)
            if outcome.snapshot_id is not None:
                last = {"snapshot_id": outcome.snapshot_id, "call_id": outcome.call_id}


_NEEDS = {"state.revert": ("snapshot_id",), "gate.revert": ("call_id",)}


def findings(db: Path, changed: dict[str, Transition | None] | None = None) -> list[Difference | NotRecomputed]:
    with closing(open_reader(db)) as reader:
        return replay_transitions(reader, "default", {**TRANSITIONS, **(changed or {})}.get)


def differences(db: Path, changed: dict[str, Transition | None] | None = None) -> list[Difference]:
    """Where everything can be recomputed."""
    found = findings(db, changed)
    assert all(isinstance(one, Difference) for one in found), found
    return [one for one in found if isinstance(one, Difference)]


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty ledger to copy: making one takes longer than filling it."""
    folder = tmp_path_factory.mktemp("empty")
    asyncio.run(play(folder / "a.db", []))
    return folder


@settings(max_examples=settings().max_examples // 2)
@given(calls=st.lists(CALLS, max_size=8))
def test_replaying_any_transitions_gives_the_recorded_states(
    empty: Path, calls: list[tuple[str, dict[str, Any]]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        db = Path(folder) / "copy" / "a.db"
        shutil.copytree(empty, db.parent)
        asyncio.run(play(db, calls))
        assert differences(db) == []


def test_every_kind_of_pure_call_in_a_mixed_ledger_is_replayed(made: Made) -> None:
    asked: list[str] = []

    def find(tool: str) -> Transition | None:
        asked.append(tool)
        return TRANSITIONS.get(tool)

    with closing(open_reader(made.db)) as reader:
        assert replay_transitions(reader, "default", find) == []
        assert replay_transitions(reader, "home", find) == []
    assert asked == ["count.up", "state.set", "count.up", "count.up"]


def test_a_transition_that_leads_elsewhere_now_is_shown_once_for_each_call(made: Made) -> None:
    def count_twice(inputs: dict[str, Any], state: Any) -> NewState:
        return NewState({**state, "n": state.get("n", 0) + 2 * inputs["by"]})

    found = differences(made.db, {"count.up": count_twice})
    assert [(difference.tool, difference.what) for difference in found] == [
        ("count.up", "it leads to another state")
    ] * 2
    assert found[0].call_id == made.calls["first"]
    assert found[0].recorded != found[0].recomputed
    assert found[0].to_json().keys() == {
        "project", "seq", "call_id", "tool", "what", "recorded", "recomputed"
    }  # fmt: skip


def test_a_transition_that_fails_now_is_shown(made: Made) -> None:
    def fail(inputs: dict[str, Any], state: Any) -> NewState:
        raise RuntimeError("not any more")

    assert {difference.what for difference in differences(made.db, {"state.set": fail})} == {
        "it fails now: RuntimeError: not any more"
    }


def test_a_transition_that_is_not_here_is_not_recomputed_and_no_difference(made: Made) -> None:
    [found] = findings(made.db, {"state.set": None})
    assert isinstance(found, NotRecomputed)
    assert found.why == "there is no pure tool `state.set` here"


async def test_a_result_that_differs_now_is_shown(tmp_path: Path) -> None:
    async with gate_at(tmp_path / "a.db") as gate:
        await gate.call("state.set", path="n", value=1)
        await gate.call("state.get", path="n")
    assert differences(tmp_path / "a.db") == []
    found = differences(tmp_path / "a.db", {"state.get": lambda _, state: NewState(state, data=2)})
    assert [difference.what for difference in found] == ["it returns another result"]


async def test_a_read_that_changes_the_state_now_is_shown(tmp_path: Path) -> None:
    async with gate_at(tmp_path / "a.db") as gate:
        await gate.call("state.get", path="")
    found = differences(tmp_path / "a.db", {"state.get": lambda _, state: NewState({"n": 1}, data=state)})
    assert [difference.what for difference in found] == ["it leads to another state"]


def test_a_snapshot_that_was_exchanged_is_shown(copy: Made) -> None:
    with closing(sqlite3.connect(copy.db, isolation_level=None)) as connection:
        connection.execute("UPDATE blobs SET data = x'7b7d' WHERE hash IN (SELECT document FROM snapshots)")
    assert {difference.what for difference in differences(copy.db)} == {"it leads to another state"}


async def test_erased_calls_are_passed_over_and_their_states_still_count(tmp_path: Path) -> None:
    async with gate_at(tmp_path / "a.db") as gate:
        first = await gate.call("count.up", by=1)
        await gate.call("state.set", path="m", value=1)
    async with gate_at(tmp_path / "a.db") as gate:
        await erase(gate, first.call_id)
    broken = differences(tmp_path / "a.db", {"count.up": None})
    assert broken == []
    assert differences(tmp_path / "a.db") == []


async def test_a_call_that_was_held_is_replayed_from_the_arguments_in_its_first_entry(tmp_path: Path) -> None:
    policy = {"rules": [{"pattern": "count.up*", "action": "ask"}]}
    async with gate_at(tmp_path / "a.db", policy=policy) as gate:
        asked = await gate.call("count.up", by=5, request_id="r", wait=False)
        await gate.answer(asked.call_id, approve=True, by=ANNA)
        assert (await gate.call("count.up", by=5, request_id="r")).state_version == 1
    assert differences(tmp_path / "a.db") == []
    inputs: list[dict[str, Any]] = []

    def note(args: dict[str, Any], state: Any) -> NewState:
        inputs.append(args)
        return NewState({"n": args["by"]})

    assert differences(tmp_path / "a.db", {"count.up": note}) == []
    assert inputs == [{"by": 5}]

"""Projects: their state document, its schema, and the doors that are shut."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_gate.model.outcome import Status
from agent_gate.model.tool import Json
from tests.gates import ALLOW_ALL, a_gate, agent, code_of, counter, entries, projects, reader, rows, sender

ANYWHERE = agent(projects=("*",))


async def test_a_project_begins_with_its_initial_state_at_version_0(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOW_ALL, counter(), agent=ANYWHERE) as gate:
        await projects(gate).create("home", {"n": 5})
        assert (await gate.call("state.get", project="home")).data == {"n": 5}
        outcome = await gate.call("counter.add", project="home")
        assert (outcome.state_version, outcome.message) == (1, "now 6")
        assert (await gate.call("state.get")).data == {}


async def test_every_state_must_fit_the_project_s_schema(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 6}}, "required": ["n"]}
    async with a_gate(tmp_path, ALLOW_ALL, counter(), agent=ANYWHERE) as gate:
        await projects(gate).create("home", {"n": 5}, schema)
        assert (await gate.call("counter.add", project="home")).ok
        for call in (
            ("counter.add", {}),
            ("state.set", {"path": "n", "value": "six"}),
            ("state.delete", {"path": "n"}),
        ):
            outcome = await gate.call(*call, project="home")
            assert (outcome.status, code_of(outcome)) == (Status.ERROR, 2003)
            assert "schema" in str(outcome.error)
        assert (await gate.ledger.state("home")).document == {"n": 6}


@pytest.mark.parametrize("shut", ["lock", "archive"])
async def test_a_locked_or_archived_project_refuses_every_call_with_1017(tmp_path: Path, shut: str) -> None:
    acts: list[str] = []
    async with a_gate(tmp_path, ALLOW_ALL, counter(), sender(acts), reader(acts), agent=ANYWHERE) as gate:
        await projects(gate).create("home")
        await gate.call("counter.add", project="home")
        await getattr(projects(gate), shut)("home")
        for name in ("counter.add", "mail.send", "note.read", "state.get"):
            outcome = await gate.call(name, project="home")
            assert (outcome.status, code_of(outcome)) == (Status.DENIED, 1017)
        assert acts == []
        await projects(gate).unlock("home")
        assert (await gate.call("counter.add", project="home")).message == "now 2"


async def test_a_project_that_does_not_exist_is_1017_and_says_how_to_make_it(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOW_ALL, counter(), agent=ANYWHERE) as gate:
        outcome = await gate.call("counter.add", project="nowhere")
        assert (outcome.status, code_of(outcome)) == (Status.DENIED, 1017)
        assert "project create nowhere" in str(outcome.error)


async def test_an_agent_reaches_only_its_projects(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOW_ALL, counter()) as gate:
        await projects(gate).create("home")
        homely = agent(projects=("home",))
        assert (await gate.call("counter.add", project="home", agent=homely)).ok
        outcome = await gate.call("counter.add", agent=homely)
        assert (outcome.status, code_of(outcome)) == (Status.DENIED, 6003)
        assert (await gate.ledger.state("default")).version == 0


async def test_refusals_at_the_project_s_door_are_in_the_gate_s_own_chain(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOW_ALL, counter()) as gate:
        await projects(gate).create("home")
        await gate.call("counter.add", project="home", n=1)
        [settled] = entries(gate, "settled")
        assert (settled["project"], settled["body"]["error"]["code"]) == ("_gate", 6003)
        assert rows(gate, "SELECT * FROM entries WHERE project = 'home' AND kind != 'project'") == []


@pytest.mark.parametrize(
    ("calls", "state"),
    [
        ([("state.set", {"path": "/a/b", "value": 1})], {"a": {"b": 1}}),
        ([("state.set", {"path": "a.b", "value": 1})], {"a": {"b": 1}}),
        ([("state.set", {"path": "", "value": {"x": 1}})], {"x": 1}),
        ([("state.set", {"path": "l", "value": [1]}), ("state.set", {"path": "l.-", "value": 2})], {"l": [1, 2]}),
        ([("state.set", {"path": "l", "value": [1, 2]}), ("state.set", {"path": "/l/0", "value": 9})], {"l": [9, 2]}),
        ([("state.set", {"path": "a", "value": 1}), ("state.delete", {"path": "a"})], {}),
        ([("state.set", {"path": "l", "value": [1, 2]}), ("state.delete", {"path": "l.0"})], {"l": [2]}),
        ([("state.set", {"path": "a", "value": 1}), ("state.delete", {"path": ""})], {}),
        ([("state.patch", {"patch": [{"op": "add", "path": "/a", "value": 1}]})], {"a": 1}),
        (
            [("state.set", {"path": "a", "value": {"b/c": 1}}), ("state.set", {"path": "/a/b~1c", "value": 2})],
            {"a": {"b/c": 2}},
        ),
    ],
)
async def test_the_state_tools_read_and_write_one_document(
    tmp_path: Path, calls: list[tuple[str, dict[str, Json]]], state: Json
) -> None:
    async with a_gate(tmp_path, ALLOW_ALL) as gate:
        for call in calls:
            assert (await gate.call(*call)).ok
        outcome = await gate.call("state.get", path="")
        assert (outcome.data, outcome.state_version) == (state, len(calls))


@pytest.mark.parametrize(
    "call",
    [
        ("state.get", {"path": "none"}),
        ("state.delete", {"path": "none"}),
        ("state.delete", {"path": "text.x"}),
        ("state.set", {"path": "text.x", "value": 1}),
        ("state.set", {"path": "list.7", "value": 1}),
        ("state.set", {"path": "list.x", "value": 1}),
        ("state.set", {"path": "/a~2b", "value": 1}),
        ("state.patch", {"patch": [{"op": "remove", "path": "/none"}]}),
        ("state.patch", {"patch": [{"op": "dance", "path": "/text"}]}),
        ("state.patch", {"patch": [{}]}),
        ("state.patch", {"patch": [{"op": "test", "path": "/text", "value": "other"}]}),
        ("state.patch", {"patch": "add"}),
        ("state.set", {"path": "x"}),
        ("state.set", {"path": 3, "value": 1}),
    ],
)
async def test_a_place_that_is_not_there_is_2002_and_changes_nothing(
    tmp_path: Path, call: tuple[str, dict[str, Json]]
) -> None:
    async with a_gate(tmp_path, ALLOW_ALL) as gate:
        await gate.call("state.set", path="", value={"text": "t", "list": [1]})
        outcome = await gate.call(*call)
        assert (outcome.status, code_of(outcome)) == (Status.ERROR, 2002)
        assert (await gate.ledger.state("default")).version == 1


async def test_reading_the_state_makes_no_new_version(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOW_ALL) as gate:
        outcome = await gate.call("state.get")
        assert (outcome.state_version, outcome.state_diff, outcome.snapshot_id) == (0, (), None)
        assert rows(gate, "SELECT * FROM snapshots") == []


async def test_copies_of_copies_end_before_they_fill_the_memory(tmp_path: Path) -> None:
    doubling = [{"op": "copy", "from": "", "path": f"/{n}"} for n in range(1000)]
    async with a_gate(tmp_path, ALLOW_ALL) as gate:
        await gate.call("state.set", path="/text", value="x" * 1_000)
        outcome = await gate.call("state.patch", patch=doubling)
        assert (code_of(outcome), outcome.error and outcome.error.detail) == (
            2005,
            "the patch copies more than 4194304 bytes",
        )
        assert (await gate.call("state.patch", patch=doubling[:3])).ok


async def test_a_default_viewer_may_look_at_the_state_and_change_nothing(tmp_path: Path) -> None:
    viewer = agent("vera", roles=("viewer",))
    async with a_gate(tmp_path, ALLOW_ALL) as gate:
        await gate.call("state.set", path="/n", value=1)
        assert (await gate.call("state.get", path="/n", agent=viewer)).data == 1
        changes = [
            await gate.call("state.set", {"path": "/n", "value": 2}, agent=viewer),
            await gate.call("state.delete", {"path": "/n"}, agent=viewer),
            await gate.call("state.patch", {"patch": [{"op": "remove", "path": "/n"}]}, agent=viewer),
        ]
        assert [code_of(outcome) for outcome in changes] == [1009] * 3


async def test_who_may_not_read_may_not_look_at_the_state(tmp_path: Path) -> None:
    policy = {**ALLOW_ALL, "roles": {"scribe": {"max_risk": "low", "effects": ["none"]}}}
    scribe = agent("sam", roles=("scribe",))
    async with a_gate(tmp_path, policy) as gate:
        assert (await gate.call("state.set", {"path": "/n", "value": 2}, agent=scribe)).ok
        outcome = await gate.call("state.get", {"path": "/n"}, agent=scribe)
        assert outcome.error is not None
        assert (outcome.error.code, "has effect read" in outcome.error.detail) == (1009, True)

"""A call is undone once, whoever asks and however often; the undoing is a call that can be undone itself."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent_gate import Gate, Outcome, tool
from agent_gate.history.verify import verify
from agent_gate.model.outcome import Status
from agent_gate.model.tool import Json
from tests.gates import ALLOW_ALL, a_gate, agent, approve, code_of, entries, outcome_of, pending, run_elsewhere, soon
from tests.scenarios.home_gates import a_gate_at_home, call_service
from tests.scenarios.test_command_writes import REVERTING, policy_of, sh, tree

BOSS = agent("boss", roles=("admin",), projects=("*",))
FILES = {
    "rules": REVERTING,
    "tools": {"fs.write": {"allow_paths": ["./**"]}},
}
LIGHT = "light.kitchen_lights"


def shelf(things: list[str], noted: list[str], **declared: Any) -> Any:
    """A tool whose undoing would take something off every time that it runs."""

    async def take(args: dict[str, Json], data: Json) -> dict[str, Json]:
        noted.append(f"undo {args['thing']}")
        if things:
            things.pop()
        return {"left": len(things)}

    @tool("shelf.put", effect="write", risk="low", undo=take, **declared)
    async def put(thing: str) -> dict[str, Json]:
        noted.append(f"put {thing}")
        things.append(thing)
        return {"place": len(things)}

    return put


async def revert(gate: Gate, call: Outcome | str) -> Outcome:
    return await gate.call("gate.revert", call_id=call if isinstance(call, str) else call.call_id)


async def test_a_call_is_undone_once_and_again_is_refused_with_the_id_of_the_first(tmp_path: Path) -> None:
    things, noted = ["cup", "jug"], list[str]()
    async with a_gate(tmp_path, ALLOW_ALL, shelf(things, noted), agent=BOSS) as gate:
        put = await gate.call("shelf.put", thing="book")
        first = await revert(gate, put)
        again = [await revert(gate, put) for _ in range(2)]
        assert verify(tmp_path / "gate.db").ok
    assert (first.ok, things, noted) == (True, ["cup", "jug"], ["put book", "undo book"])
    for refused in again:
        assert (refused.status, code_of(refused)) == (Status.ERROR, 2002)
        assert refused.error is not None
        assert refused.error.detail == f"call `{put.call_id}` was undone already, by call `{first.call_id}`"
        assert refused.error.suggestion == f"to take that back, revert `{first.call_id}`"


async def test_undoings_that_meet_run_once(tmp_path: Path) -> None:
    things, noted = ["cup"], list[str]()
    async with (
        a_gate(tmp_path, ALLOW_ALL, shelf(things, noted), agent=BOSS) as one,
        a_gate(tmp_path, ALLOW_ALL, shelf(things, noted), agent=BOSS) as two,
    ):
        put = await one.call("shelf.put", thing="book")
        ends = await soon(asyncio.gather(*(revert(gate, put) for gate in (one, two) * 8)))
    assert (sum(end.ok for end in ends), things, noted.count("undo book")) == (1, ["cup"], 1)
    [done] = [end.call_id for end in ends if end.ok]
    assert all(end.ok or done in str(end.error) for end in ends)


async def test_undoings_that_wait_for_a_person_run_once(tmp_path: Path) -> None:
    things, noted = ["cup"], list[str]()
    policy = {"rules": [{"pattern": "gate.revert*", "action": "ask"}, {"pattern": "shelf*", "action": "allow"}]}
    async with a_gate(tmp_path, policy, shelf(things, noted), agent=BOSS) as gate:
        put = await gate.call("shelf.put", thing="book")
        asked = [await pending(gate, "gate.revert", {"call_id": put.call_id}) for _ in range(2)]
        ends = []
        for question in asked:
            await approve(gate, question)
            ends.append(await outcome_of(gate, question))
    assert ([end.status for end in ends], things) == ([Status.SUCCESS, Status.ERROR], ["cup"])
    assert asked[0].call_id in str(ends[1].error)


async def test_undoings_of_one_state_change_that_meet_run_once(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOW_ALL, agent=BOSS) as gate:
        await gate.call("state.set", path="n", value=[])
        await gate.call("state.patch", patch=[{"op": "add", "path": "/n/-", "value": 1}])
        last = await gate.call("state.patch", patch=[{"op": "add", "path": "/n/-", "value": 2}])
        ends = await soon(asyncio.gather(*(revert(gate, last) for _ in range(5))))
        assert (await gate.ledger.state("default")).document == {"n": [1]}
        again = await revert(gate, last)
    [done] = [end.call_id for end in ends if end.ok]
    assert done in str(again.error)


async def test_an_undoing_that_failed_or_was_denied_leaves_the_call_to_be_undone(tmp_path: Path) -> None:
    things: list[str] = []
    fails = True

    async def take(args: dict[str, Json], data: Json) -> None:
        if fails:
            raise RuntimeError("the shelf is locked")
        things.pop()

    @tool("shelf.put", effect="write", risk="low", undo=take)
    async def put(thing: str) -> None:
        things.append(thing)

    async with a_gate(tmp_path, ALLOW_ALL, put, agent=BOSS) as gate:
        call = await gate.call("shelf.put", thing="book")
        assert (await revert(gate, call)).status is Status.ERROR
        assert (await gate.call("gate.revert", call_id=call.call_id, agent=agent())).status is Status.DENIED
        fails = False
        assert (await revert(gate, call)).ok
    assert things == []


async def test_an_undoing_whose_end_nobody_knows_is_not_done_again(tmp_path: Path) -> None:
    run_elsewhere(
        tmp_path,
        """
        async def main():
            async def die(args, data):
                os._exit(9)
            @tool("shelf.put", effect="write", risk="low", undo=die)
            async def put(thing: str) -> None:
                pass
            boss = Agent("boss", roles=("admin",))
            async with a_gate(directory, ALLOW_ALL, put, agent=boss) as gate:
                call = await gate.call("shelf.put", thing="book")
                (directory / "call").write_text(call.call_id)
                await gate.call("gate.revert", call_id=call.call_id)
        """,
    )
    noted: list[str] = []
    async with a_gate(tmp_path, ALLOW_ALL, shelf([], noted), agent=BOSS) as gate:
        refused = await revert(gate, (tmp_path / "call").read_text())
    assert (code_of(refused), noted) == (2002, [])
    assert "nobody knows how that ended" in str(refused.error)


async def test_to_undo_the_undoing_is_to_do_it_again_and_so_on(tmp_path: Path) -> None:
    things, noted = ["cup"], list[str]()
    async with a_gate(tmp_path, ALLOW_ALL, shelf(things, noted), agent=BOSS) as gate:
        last = put = await gate.call("shelf.put", thing="book")
        for wanted in (["cup"], ["cup", "book"], ["cup"], ["cup", "book"]):
            before, last = last, await revert(gate, last)
            assert (last.ok, things) == (True, wanted), last
            assert last.signatures == (f"gate.revert({before.call_id})", *put.signatures)
            assert last.call_id in str((await revert(gate, before)).error)
        assert len(entries(gate, "reverted")) == 4
    assert noted == ["put book", "undo book", "put book", "undo book", "put book"]


async def test_what_had_secret_arguments_is_not_done_again(tmp_path: Path) -> None:
    things, noted = list[str](), list[str]()
    async with a_gate(tmp_path, ALLOW_ALL, shelf(things, noted, secret=("thing",)), agent=BOSS) as gate:
        put = await gate.call("shelf.put", thing="book")
        undone = await revert(gate, put)
        refused = await revert(gate, undone)
    assert (undone.ok, code_of(refused), things) == (True, 2002, [])
    assert "secret arguments" in str(refused.error)


@pytest.mark.parametrize(
    ("before", "args"),
    [
        (b"old\n", {"content": "new\n"}),
        (b"old\n", {"content": "more\n", "mode": "append"}),
        (None, {"content": "first\n"}),
    ],
)
async def test_a_write_is_undone_and_done_again_and_a_file_that_changed_is_left(
    tmp_path: Path, before: bytes | None, args: dict[str, Json]
) -> None:
    file = tmp_path / "note.txt"
    if before is not None:
        file.write_bytes(before)
    async with a_gate(tmp_path, FILES, agent=BOSS, working_dir=tmp_path) as gate:
        last = await gate.call("fs.write", {"path": "note.txt", **args})
        after = file.read_bytes()
        for wanted in (before, after, before, after, before):
            last = await revert(gate, last)
            assert last.ok, last
            assert (file.read_bytes() if file.exists() else None) == wanted
        file.write_bytes(b"another's\n")
        refused = await revert(gate, last)
        assert verify(tmp_path / "gate.db").ok
    assert (refused.status, file.read_bytes()) == (Status.ERROR, b"another's\n")
    assert "since call" in str(refused.error)


async def test_what_a_command_wrote_is_taken_back_and_brought_back(tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "sub").mkdir(parents=True)
    (work / "old").write_text("one\n")
    (work / "gone").write_text("bye\n")
    async with a_gate(tmp_path, policy_of(rules=REVERTING), working_dir=work, agent=BOSS) as gate:
        before = tree(work)
        last = await sh(gate, "echo two >> old; chmod 600 old; rm gone; mkdir -p new/deep; touch new/deep/f")
        after = tree(work)
        for wanted in (before, after, before):
            last = await revert(gate, last)
            assert (last.ok, tree(work)) == (True, wanted), last


async def test_what_was_done_to_a_home_is_undone_and_done_again(tmp_path: Path) -> None:
    async with a_gate_at_home(tmp_path) as (gate, home):
        last = await call_service(gate, "light.turn_off", LIGHT)
        for wanted in ("on", "off", "on"):
            last = await revert(gate, last)
            assert (last.ok, home.states[LIGHT].state) == (True, wanted), last

"""A path of the state that is denied stays as it is, whichever way an agent would change it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_gate.history.verify import verify
from agent_gate.model.outcome import Status
from tests.gates import a_gate, agent, approve, code_of, entries, outcome_of, pending

ADMIN = agent("admin-bot", roles=("admin",))
DENIED: dict[str, Any] = {
    "rules": [
        {"pattern": "state.*", "action": "allow"},
        {"pattern": "gate.revert(*)", "action": "allow"},
        {"pattern": "state.set(/settings/admin*)", "action": "deny"},
        {"pattern": "state.set(/list/1*)", "action": "deny"},
    ]
}
ALL: dict[str, Any] = {"rules": [{"pattern": "*", "action": "allow"}]}
STATE = {"settings": {"admin": {"name": "anna"}, "volume": 3}, "spare": {"admin": "bot"}, "list": [1, 2, 3]}
WAYS: list[tuple[str, dict[str, Any]]] = [
    ("state.set", {"path": "/settings/admin", "value": "bot"}),
    ("state.set", {"path": "settings.admin.name", "value": "bot"}),
    ("state.set", {"path": "/settings", "value": {"admin": "bot", "volume": 3}}),
    ("state.set", {"path": "/settings", "value": None}),
    ("state.set", {"path": "", "value": {"settings": {"admin": {"name": "bot"}}}}),
    ("state.delete", {"path": "/settings/admin"}),
    ("state.delete", {"path": "/settings"}),
    ("state.delete", {"path": ""}),
    ("state.delete", {"path": "/list/0"}),
    ("state.patch", {"patch": [{"op": "replace", "path": "/settings/admin/name", "value": "bot"}]}),
    ("state.patch", {"patch": [{"op": "replace", "path": "/settings", "value": {"admin": "bot"}}]}),
    ("state.patch", {"patch": [{"op": "replace", "path": "", "value": {}}]}),
    ("state.patch", {"patch": [{"op": "remove", "path": "/settings"}]}),
    ("state.patch", {"patch": [{"op": "copy", "from": "/spare", "path": "/settings"}]}),
    ("state.patch", {"patch": [{"op": "move", "from": "/spare", "path": "/settings"}]}),
    ("state.patch", {"patch": [{"op": "move", "from": "/settings", "path": "/elsewhere"}]}),
    ("state.patch", {"patch": [{"op": "add", "path": "/t", "value": {"admin": 1}},
                               {"op": "move", "from": "/t", "path": "/settings"}]}),
    ("state.patch", {"patch": [{"op": "add", "path": "/list/0", "value": 0}]}),
    ("state.set", {"path": "/settings", "value": {f"k{number}": number for number in range(1_000)}}),
]  # fmt: skip


async def arranged(place: Path) -> tuple[str, str]:
    """A snapshot without any settings, and a call that made some."""
    async with a_gate(place, ALL) as gate:
        empty = await gate.call("state.set", path="/settings", value={})
        made = await gate.call("state.set", path="", value=STATE)
        assert empty.snapshot_id is not None
        return empty.snapshot_id, made.call_id


@pytest.mark.parametrize(("name", "args"), WAYS)
async def test_no_tool_changes_a_path_that_is_denied(tmp_path: Path, name: str, args: dict[str, Any]) -> None:
    await arranged(tmp_path)
    async with a_gate(tmp_path, DENIED) as gate:
        outcome = await gate.call(name, **args)
        assert (outcome.status, code_of(outcome)) == (Status.DENIED, 1001)
        assert (await gate.call("state.get", path="")).data == STATE


async def test_no_revert_changes_a_path_that_is_denied(tmp_path: Path) -> None:
    snapshot_id, call_id = await arranged(tmp_path)
    async with a_gate(tmp_path, DENIED, agent=ADMIN) as gate:
        for name, args in (("state.revert", {"snapshot_id": snapshot_id}), ("gate.revert", {"call_id": call_id})):
            outcome = await gate.call(name, args)
            assert (outcome.status, code_of(outcome)) == (Status.DENIED, 1001)
        assert (await gate.call("state.get", path="")).data == STATE
    async with a_gate(tmp_path, ALL, agent=ADMIN) as gate:
        assert (await gate.call("gate.revert", call_id=call_id)).status is Status.SUCCESS


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("state.set", {"path": "/settings/volume", "value": 4}),
        ("state.set", {"path": "/settings", "value": {**STATE["settings"], "volume": 4}}),  # type: ignore[dict-item]
        ("state.patch", {"patch": [{"op": "replace", "path": "/settings/volume", "value": 4}]}),
        ("state.set", {"path": "/list/-", "value": 4}),
        ("state.delete", {"path": "/list/2"}),
        ("state.set", {"path": "/many", "value": {f"k{number}": number for number in range(1_000)}}),
    ],
)
async def test_what_lies_beside_a_denied_path_can_be_changed(tmp_path: Path, name: str, args: dict[str, Any]) -> None:
    await arranged(tmp_path)
    async with a_gate(tmp_path, DENIED) as gate:
        assert (await gate.call(name, **args)).status is Status.SUCCESS
        assert verify(tmp_path / "gate.db").ok


async def test_an_ask_of_a_path_asks_whichever_way_it_would_be_changed(tmp_path: Path) -> None:
    asking = {
        "rules": [{"pattern": "state.patch(*)", "action": "allow"}, {"pattern": "state.set(/a*)", "action": "ask"}]
    }
    async with a_gate(tmp_path, asking) as gate:
        question = await pending(gate, "state.patch", {"patch": [{"op": "add", "path": "/a", "value": {"b": 1}}]})
        await approve(gate, question)
        assert (await outcome_of(gate, question)).status is Status.SUCCESS
        [held] = entries(gate, "held")
        assert held["body"]["aliases"] == ["state.set(/a)", "state.set(/a/b)"]


async def test_the_call_is_judged_by_the_state_that_it_will_change(tmp_path: Path) -> None:
    """What another agent put there meanwhile counts: the call is bound again under the project's lock."""
    asking = {
        "rules": [
            {"pattern": "state.*", "action": "allow"},
            {"pattern": "state.set(/x/secret*)", "action": "deny"},
            {"pattern": "state.delete(*)", "action": "ask"},
        ],
        "declare": {"state.delete": {"cost": 5}},
        "approvals": [{"min_cost": 5}],
    }
    async with a_gate(tmp_path, asking) as gate:
        await gate.call("state.set", path="/x", value={"plain": 1})
        question = await pending(gate, "state.delete", {"path": "/x"})
        async with a_gate(tmp_path, ALL, agent=agent("other")) as other:
            await other.call("state.set", path="/x/secret", value=1)
        await approve(gate, question)
        outcome = await outcome_of(gate, question)
        assert outcome.status is Status.DENIED
        assert code_of(outcome) in (1001, 1015)


async def test_a_rule_about_a_file_by_a_relative_path_holds_where_the_gate_stands(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "really").mkdir()
    (tmp_path / "work" / "linked").symlink_to(tmp_path / "really")
    for path in ("work/plain.txt", "work/secret.txt", "really/other.txt"):
        (tmp_path / path).write_text("x")
    policy = {
        "tools": {"fs.read": {"allow_paths": [f"{tmp_path}/**"]}},
        "rules": [
            {"pattern": "fs.read(./secret*)", "action": "deny"},
            {"pattern": "fs.read(./linked/*)", "action": "deny"},
        ],
    }
    async with a_gate(tmp_path, policy, working_dir=tmp_path / "work") as gate:
        outcomes = [await gate.call("fs.read", path=path) for path in ("plain.txt", "secret.txt", "linked/other.txt")]
    assert [outcome.status for outcome in outcomes] == [Status.SUCCESS, Status.DENIED, Status.DENIED]

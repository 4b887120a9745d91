"""A path of the state that may not be read is not told by what lies above it, by a patch, nor by an earlier state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_gate.model.bounds import STATE_READ_PATHS_MAX
from agent_gate.model.outcome import Status
from tests.gates import a_gate, code_of, pending

SECRET = "hunter2"
STATE: dict[str, Any] = {"secret": {"word": SECRET}, "notes": {"today": "rain"}, "list": [{"pin": SECRET}, 2]}
RULES: list[dict[str, Any]] = [
    {"pattern": "state.*", "action": "allow"},
    {"pattern": "state.get(/secret*)", "action": "deny"},
    {"pattern": "state.get(*/pin)", "action": "deny"},
]
READS: list[tuple[str, dict[str, Any]]] = [
    ("state.get", {}),
    ("state.get", {"path": ""}),
    ("state.get", {"path": "/secret"}),
    ("state.get", {"path": "secret.word"}),
    ("state.get", {"path": "/list"}),
    ("state.get", {"path": "/list/0"}),
    ("state.at", {"version": 1}),
    ("state.diff", {"from": 0, "to": 1}),
    ("state.patch", {"patch": [{"op": "copy", "from": "", "path": "/mine"}]}),
    ("state.patch", {"patch": [{"op": "copy", "from": "/list", "path": "/mine"}]}),
    ("state.patch", {"patch": [{"op": "move", "from": "/list/0", "path": "/mine"}]}),
    ("state.patch", {"patch": [{"op": "test", "path": "/list", "value": [{"pin": "guess"}, 2]}]}),
    ("state.patch", {"patch": [{"op": "remove", "path": "/notes"}, {"op": "copy", "from": "/secret", "path": "/y"}]}),
]
OTHERS: list[tuple[str, dict[str, Any]]] = [
    ("state.get", {"path": "/notes"}),
    ("state.get", {"path": "/list/1"}),
    ("state.history", {}),
    ("state.patch", {"patch": [{"op": "copy", "from": "/notes", "path": "/mine"}]}),
]


async def arranged(place: Path, **more: Any) -> None:
    async with a_gate(place, {"rules": [{"pattern": "*", "action": "allow"}]}) as gate:
        assert (await gate.call("state.set", path="", value={**STATE, **more})).status is Status.SUCCESS


@pytest.mark.parametrize(("name", "args"), READS)
async def test_nothing_tells_a_path_that_is_denied(tmp_path: Path, name: str, args: dict[str, Any]) -> None:
    await arranged(tmp_path)
    async with a_gate(tmp_path, {"rules": RULES}) as gate:
        outcome = await gate.call(name, **args)
        assert (outcome.status, code_of(outcome)) == (Status.DENIED, 1001)
        assert SECRET not in str(outcome.to_json())


@pytest.mark.parametrize(("name", "args"), OTHERS)
async def test_what_lies_beside_it_is_told(tmp_path: Path, name: str, args: dict[str, Any]) -> None:
    await arranged(tmp_path)
    async with a_gate(tmp_path, {"rules": RULES}) as gate:
        assert (await gate.call(name, **args)).status is Status.SUCCESS


async def test_a_whole_that_does_not_hold_it_is_told(tmp_path: Path) -> None:
    async with a_gate(tmp_path, {"rules": RULES}) as gate:
        await gate.call("state.set", path="/notes", value="rain")
        assert (await gate.call("state.get")).data == {"notes": "rain"}


async def test_of_too_many_paths_none_may_be_denied(tmp_path: Path) -> None:
    await arranged(tmp_path, many={f"k{number}": number for number in range(STATE_READ_PATHS_MAX)})
    async with a_gate(tmp_path, {"rules": RULES[:2]}) as gate:
        outcome = await gate.call("state.get", path="")
        assert outcome.error is not None
        assert "shows more paths than are told one by one" in outcome.error.detail
        assert (await gate.call("state.get", path="/many")).status is Status.SUCCESS


async def test_a_question_about_a_path_is_asked_of_what_holds_it_unless_a_rule_allows_it(tmp_path: Path) -> None:
    await arranged(tmp_path)
    asks = [{"pattern": "state.get(/secret*)", "action": "ask"}, {"pattern": 'state.get("")', "action": "allow"}]
    async with a_gate(tmp_path, {"rules": asks}) as gate:
        assert (await pending(gate, "state.get", {"path": ""})).tool == "state.get"
    allowed = [{"pattern": "state.*", "action": "ask"}, {"pattern": "state.get*", "action": "allow"}]
    async with a_gate(tmp_path, {"rules": allowed}) as gate:
        assert (await gate.call("state.get", path="")).status is Status.SUCCESS

"""Arguments that a model sets to null because its schema makes it name them all."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent_gate import Gate, tool
from agent_gate.ports.tools import RegisteredTool
from agent_gate.services.registry import ToolRegistry
from tests.gates import ALLOW_ALL, a_gate, code_of, entries
from tests.scenarios.home_gates import a_gate_at_home
from tests.scenarios.test_cli import run


@tool(name="mail.send", effect="write")
def send(to: str, subject: str = "no subject", copies: int | None = 1) -> str:
    """Sends a mail."""
    return f"{to}: {subject}, {copies}"


async def test_null_for_an_optional_argument_is_as_if_it_were_absent(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOW_ALL, send) as gate:
        without = await gate.call("mail.send", {"to": "anna"})
        with_null = await gate.call("mail.send", {"to": "anna", "subject": None})
        assert (with_null.data, with_null.signatures) == (without.data, without.signatures)
        kept = await gate.call("mail.send", {"to": "anna", "copies": None})
        assert kept.data == "anna: no subject, None"


async def test_null_for_a_required_argument_is_refused(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOW_ALL, send) as gate:
        assert code_of(await gate.call("mail.send", {"to": None})) == 2002


async def test_a_value_that_may_be_null_is_written_as_null(tmp_path: Path) -> None:
    async with a_gate(tmp_path) as gate:
        assert (await gate.call("state.set", {"path": "/a", "value": None})).ok
        assert (await gate.call("state.get", {"path": "/a"})).data is None
        assert (await gate.call("state.get", {"path": None})).data == {"a": None}


async def test_the_record_and_the_judgement_see_the_call_without_its_nulls(tmp_path: Path) -> None:
    policy = {"rules": [{"pattern": "mail.send*", "action": "allow", "when": "len(inputs) == 1"}]}
    async with a_gate(tmp_path, policy, send) as gate:
        assert (await gate.call("mail.send", {"to": "anna", "subject": None})).ok
        [row] = entries(gate, "performing")
        assert row["body"]["args"] == {"to": "anna"}


async def test_tools_of_a_home_take_null_for_what_is_not_said(tmp_path: Path) -> None:
    async with a_gate_at_home(tmp_path) as (gate, home):
        listed = await gate.call("ha_list_entities", {"domain": "light", "area": None})
        assert listed.data["count"] == len([name for name in home.states if name.startswith("light.")])
        called = await gate.call(
            "ha_call_service",
            {
                "domain": "light",
                "service": "turn_off",
                "entity_id": "light.kitchen_lights",
                "target": None,
                "data": None,
            },
        )
        assert called.ok
        scene = await gate.call("ha_activate_scene", {"entity_id": "scene.movie_night", "transition": None})
        assert scene.ok


async def test_a_tool_of_another_server_is_given_the_null(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOW_ALL, send) as gate:
        _put(gate, replace(_registered(gate), nulls_absent=frozenset()))
        refused = await gate.call("mail.send", {"to": "anna", "subject": None})
        assert code_of(refused) == 2002


def _registered(gate: Gate) -> RegisteredTool:
    registered = gate.tools.find("mail.send")
    assert registered is not None
    return registered


def _put(gate: Gate, registered: RegisteredTool) -> None:
    registry: Any = gate.tools
    assert isinstance(registry, ToolRegistry)
    registry._registered[registered.declaration.name] = registered


def test_check_judges_the_call_without_its_nulls(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(json.dumps(ALLOW_ALL))
    given = json.dumps({"domain": "light", "area": None})
    checked = run(tmp_path, "check", "--tool", "ha_list_entities", "--args", given, "--json")
    assert json.loads(checked.stdout)["signatures"] == ["ha_list_entities(, light)"]
    assert checked.returncode == 0

"""What a ledger remembers of a home: every command that was sent, and the entities as they were last seen."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent_gate.config import HomeAssistantConfig
from agent_gate.history.verify import verify
from agent_gate.simulated_home import Running, simulated_home
from tests.gates import ALLOW_ALL, a_gate, rows, until

LIGHT, SCENE = "light.kitchen_lights", "scene.movie_night"
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture
async def running() -> AsyncIterator[Running]:
    async with simulated_home() as found:
        yield found


def home_at(running: Running, **settings: Any) -> HomeAssistantConfig:
    return HomeAssistantConfig(running.url, running.token, **settings)


def kept(folder: Path) -> dict[str, tuple[str, Any]]:
    with closing(sqlite3.connect(folder / "gate.db")) as connection:
        found = connection.execute("SELECT entity_id, state, attributes FROM ha_entity_snapshot").fetchall()
    return {entity_id: (state, json.loads(attributes)) for entity_id, state, attributes in found}


async def test_every_command_stands_in_the_log_with_the_context_that_home_assistant_gave_it(
    tmp_path: Path, running: Running
) -> None:
    switch = {"domain": "light", "service": "turn_on", "entity_id": LIGHT}
    async with a_gate(tmp_path, ALLOW_ALL, home_assistant=home_at(running)) as gate:
        done = await gate.call("ha_call_service", switch | {"data": {"brightness_pct": 80}})
        failed = await gate.call("ha_call_service", switch | {"data": {"brightness_pct": "very"}})
        await gate.call("ha_activate_scene", {"entity_id": SCENE})
        await gate.call("ha_call_service", switch | {"entity_id": "light.nowhere"})
        log = rows(gate, "SELECT * FROM ha_command_log ORDER BY id")
    assert [(row["domain"], row["service"], json.loads(row["target"])) for row in log] == [
        ("light", "turn_on", {"entity_id": LIGHT}),
        ("light", "turn_on", {"entity_id": LIGHT}),
        ("scene", "turn_on", {"entity_id": SCENE}),
    ]
    assert (json.loads(log[0]["result"]), json.loads(log[0]["data"])) == (done.data, {"brightness_pct": 80})
    assert failed.error is not None
    assert json.loads(log[1]["result"]) == failed.error.to_json()
    made = [call.context.id for call in running.home.calls]
    assert [log[0]["context_id"], log[1]["context_id"]] == [made[0], None]
    assert log[2]["context_id"] in made


async def test_a_gate_that_closes_leaves_the_home_as_it_was_last_seen(tmp_path: Path, running: Running) -> None:
    async with a_gate(tmp_path, ALLOW_ALL, home_assistant=home_at(running)) as gate:
        await gate.call("ha_call_service", {"domain": "light", "service": "turn_off", "entity_id": LIGHT})
        assert kept(tmp_path) == {}
    seen = kept(tmp_path)
    assert seen == {id: (state.state, dict(state.attributes)) for id, state in running.home.states.items()}
    assert seen[LIGHT][0] == "off"
    async with a_gate(tmp_path, home_assistant=HomeAssistantConfig(NOWHERE, running.token)):
        pass
    assert kept(tmp_path) == seen
    assert verify(tmp_path / "gate.db").ok


async def test_while_a_gate_is_open_what_changes_and_goes_is_followed(tmp_path: Path, running: Running) -> None:
    async with a_gate(tmp_path, home_assistant=home_at(running, snapshot_interval_seconds=1)):
        await until(lambda: LIGHT in kept(tmp_path))
        running.home.set_state(LIGHT, "unavailable", {})
        running.home.remove(SCENE)
        await until(lambda: kept(tmp_path)[LIGHT] == ("unavailable", {}) and SCENE not in kept(tmp_path))

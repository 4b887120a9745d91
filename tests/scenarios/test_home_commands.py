"""`ha_command_log` has every service that was called: by an agent, by an undoing, and to a person's phone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agent_gate import Gate
from agent_gate.config import HomeAssistantConfig
from agent_gate.history.erase import erase_call
from agent_gate.history.verify import verify
from agent_gate.ledger.sqlite.ledger import SqliteLedger
from agent_gate.simulated_home import SimulatedHome, simulated_home
from agent_gate.simulated_home.bus import Event
from tests.gates import a_gate, approve, entries, outcome_of, pending, rows, sender, stored_bytes, until
from tests.phones import GUEST, PIXEL, action_of, at_home
from tests.scenarios.home_gates import ADMIN, a_gate_at_home, call_service

LIGHT, SWITCH = "light.kitchen_lights", "switch.ac"


class Heard:
    """What the home was told to do from outside, in order."""

    def __init__(self, home: SimulatedHome) -> None:
        self.calls: list[tuple[str, str]] = []
        self._contexts: set[str] = set()
        home.bus.listen("call_service", self._hear)

    def _hear(self, event: Event) -> None:
        if event.context.id not in self._contexts:  # what a scene calls in turn has the scene's context
            self._contexts.add(event.context.id)
            self.calls.append((str(event.data["domain"]), str(event.data["service"])))


def log(gate: Gate) -> list[dict[str, Any]]:
    found = rows(gate, "SELECT * FROM ha_command_log ORDER BY issued_at, id")
    for row in found:
        row |= {name: json.loads(row[name]) for name in ("target", "data", "result") if row[name] is not None}
    return found


def services(gate: Gate) -> list[tuple[str, str]]:
    return [(row["domain"], row["service"]) for row in log(gate)]


async def test_what_an_undoing_sends_is_told_with_what_came_of_it(tmp_path: Path) -> None:
    async with a_gate_at_home(tmp_path) as (gate, home):
        heard = Heard(home)
        off = await call_service(gate, "light.turn_off", LIGHT)
        undone = await gate.call("gate.revert", call_id=off.call_id)
        _, scene = log(gate)
        assert services(gate) == heard.calls == [("light", "turn_off"), ("scene", "apply")]
        assert (scene["target"], list(scene["data"]["entities"])) == (None, [LIGHT])
        assert [scene["context_id"]] == undone.data["context_ids"]
        assert scene["result"]["changed"] == [{"entity_id": LIGHT, "state": "on"}]
        (performing,) = [row for row in entries(gate, "performing") if row["call_id"] == undone.call_id]
        (sent, ended) = entries(gate, "command")
        assert performing["id"] < sent["id"] < ended["id"]
        assert (sent["call_id"], scene["id"], scene["issued_at"]) == (undone.call_id, sent["id"], sent["at"])
    assert verify(tmp_path / "gate.db").problems == ()


async def test_each_service_of_an_undoing_is_a_command_of_its_own(tmp_path: Path) -> None:
    async with simulated_home() as running:
        running.home.services.pop(("scene", "apply"))
        settings = HomeAssistantConfig(running.url, running.token)
        async with a_gate(tmp_path, agent=ADMIN, home_assistant=settings) as gate:
            heard = Heard(running.home)
            done = await call_service(gate, "homeassistant.toggle", [LIGHT, SWITCH])
            await gate.call("gate.revert", call_id=done.call_id)
            told = log(gate)
            assert [(row["domain"], row["service"]) for row in told] == heard.calls
    assert [row["domain"] for row in told] == ["homeassistant", "light", "switch"]
    assert [row["target"]["entity_id"] for row in told[1:]] == [[LIGHT], [SWITCH]]
    assert len({row["id"] for row in told}) == len({row["context_id"] for row in told}) == 3


async def test_an_undoing_that_the_home_refuses_is_told_with_the_error(tmp_path: Path) -> None:
    async with a_gate_at_home(tmp_path) as (gate, home):
        off = await call_service(gate, "light.turn_off", LIGHT)
        question = await gate.call("gate.revert", call_id=off.call_id)
        assert question.ok
        again = await call_service(gate, "light.turn_off", LIGHT)
        home.services.pop(("scene", "apply"))
        refused = await gate.call("gate.revert", call_id=again.call_id)
        row = log(gate)[-1]
    assert refused.status.value == "error"
    assert (row["domain"], row["service"], row["context_id"]) == ("scene", "apply", None)
    assert row["result"]["code"] == 2003


async def test_what_a_phone_is_sent_is_told_without_what_would_answer_for_its_owner(tmp_path: Path) -> None:
    acts: list[str] = []
    async with simulated_home() as running, at_home(tmp_path, running, sender(acts)) as people:
        heard = Heard(running.home)
        call_id, shown = await people.ask("42 is the answer")
        other = await people.notification(call_id, GUEST)
        people.press(shown, "Allow")
        await until(lambda: acts)
        await people.cleared(call_id)
        await until(lambda: not rows(people.gate, "SELECT * FROM question_messages"))  # every answer has come
        told, kept = log(people.gate), stored_bytes(people.gate).decode(errors="replace")
        assert services(people.gate) == heard.calls
    assert {row["service"] for row in told} == {PIXEL, GUEST}
    assert [row["data"]["message"] for row in told] == [one.message for one in running.home.notifications]
    assert (told[0]["data"]["title"], told[0]["target"]) == ("Allow mail.send?", None)
    assert [button["title"] for button in told[0]["data"]["data"]["actions"]] == ["Allow", "Deny"]
    assert all(row["context_id"] and row["result"]["changed"] == [] for row in told)
    for notification in (shown, other):
        seals = [action_of(notification, title).rpartition("_")[2] for title in ("Allow", "Deny")]
        assert not any(secret in kept for secret in (*seals, str(notification.tag)))


async def test_an_answer_that_does_not_count_and_its_telling_are_commands_too(tmp_path: Path) -> None:
    acts: list[str] = []
    async with simulated_home() as running, at_home(tmp_path, running, sender(acts)) as people:
        call_id, shown = await people.ask()
        people.press(shown, "Allow")
        await until(lambda: acts)
        people.press(shown, "Allow")
        await until(lambda: any("does not count" in str(row["data"]) for row in log(people.gate)))
        await people.cleared(call_id)


async def test_what_a_phone_was_sent_is_erased_with_its_call(tmp_path: Path) -> None:
    acts: list[str] = []
    async with simulated_home() as running, at_home(tmp_path, running, sender(acts)) as people:
        call_id, shown = await people.ask("nobody shall read this")
        people.press(shown, "Allow")
        await until(lambda: acts)
        await people.cleared(call_id)
        await until(lambda: not rows(people.gate, "SELECT * FROM question_messages"))
        assert isinstance(people.gate.ledger, SqliteLedger)
        gate = people.gate
        await erase_call(people.gate.ledger, call_id, by="anna", clock=gate.clock, ids=gate.ids)
        left = [(row["domain"], row["data"], row["result"]) for row in log(gate)]
        assert set(left) == {(None, None, None)}
        assert b"nobody shall read this" not in stored_bytes(gate)
    assert verify(tmp_path / "gate.db").problems == ()


async def test_what_cannot_be_recorded_is_not_sent(tmp_path: Path) -> None:
    async with a_gate_at_home(tmp_path) as (gate, home):
        off = await call_service(gate, "light.turn_off", LIGHT)
        heard = Heard(home)
        (tmp_path / "gate.db").rename(tmp_path / "elsewhere.db")
        undone = await gate.call("gate.revert", call_id=off.call_id)
        assert (undone.ok, heard.calls) == (False, [])
        (tmp_path / "elsewhere.db").rename(tmp_path / "gate.db")


async def test_a_person_who_was_asked_at_home_is_in_the_log_beside_the_command(tmp_path: Path) -> None:
    policy = {"rules": [{"pattern": "ha_call_service(*)", "action": "ask"}]}
    async with a_gate_at_home(tmp_path, policy) as (gate, home):
        heard = Heard(home)
        question = await pending(
            gate, "ha_call_service", {"domain": "light", "service": "turn_off", "entity_id": LIGHT}
        )
        assert log(gate) == []
        await approve(gate, question)
        await outcome_of(gate, question)
        assert services(gate) == heard.calls == [("light", "turn_off")]

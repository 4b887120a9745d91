"""The Home Assistant document's `ha_command_log`: every command that was sent, told from the entries."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent_gate import Gate
from agent_gate.history.erase import erase_call
from agent_gate.ledger.sqlite.ledger import SqliteLedger
from agent_gate.ledger.sqlite.reader import open_reader
from agent_gate.model.codec import canonical
from agent_gate.model.entry import Draft, Kind
from agent_gate.model.errors import ToolError
from agent_gate.model.tool import Json, ToolDeclaration
from agent_gate.model.work import Work
from agent_gate.tools.catalogue import BUILTIN
from tests.gates import ASK_ALL, CountedIds, HandClock, a_gate, approve, outcome_of, pending, rows

LAMP = {"domain": "light", "service": "turn_on", "entity_id": "light.kitchen", "data": {"brightness_pct": 80}}
ALLOWED: Mapping[str, Json] = {"rules": [{"pattern": "ha_*", "action": "allow"}]}


class Commands:
    """A service with the two tools whose calls are commands; it answers what it was told to."""

    name = "commands"
    dependencies: Sequence[str] = ()

    def __init__(self, answer: Json = None) -> None:
        self.answer = answer

    def tools(self) -> Sequence[ToolDeclaration]:
        return [BUILTIN["ha_call_service"], BUILTIN["ha_activate_scene"]]

    async def start(self) -> None: ...

    async def execute(self, tool_name: str, args: Mapping[str, Json]) -> Json:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def health_check(self) -> bool:
        return True

    async def close(self) -> None: ...


def log(gate: Gate) -> list[dict[str, Any]]:
    found = rows(gate, "SELECT * FROM ha_command_log ORDER BY id")
    for row in found:
        row |= {name: json.loads(row[name]) for name in ("target", "data", "result") if row[name] is not None}
    return found


async def test_a_command_is_told_with_what_it_reached_and_its_context(tmp_path: Path) -> None:
    answer = {"context_id": "01HV", "changed": [{"entity_id": "light.kitchen", "state": "on"}]}
    async with a_gate(tmp_path, ALLOWED, services=[Commands(answer)]) as gate:
        outcome = await gate.call("ha_call_service", LAMP)
        (row,) = log(gate)
        (issued,) = rows(gate, "SELECT id, at FROM entries WHERE kind = 'performing'")
    assert outcome.data == answer
    assert row == {
        "id": issued["id"],
        "domain": "light",
        "service": "turn_on",
        "target": {"entity_id": "light.kitchen"},
        "data": {"brightness_pct": 80},
        "result": answer,
        "context_id": "01HV",
        "issued_at": issued["at"],
    }


@pytest.mark.parametrize(
    ("aimed", "target"),
    [
        ({}, None),
        ({"entity_id": ["light.a", "light.b"]}, {"entity_id": ["light.a", "light.b"]}),
        ({"target": {"entity_id": "light.a"}}, {"entity_id": "light.a"}),
        ({"target": {"area_id": "kitchen"}, "entity_id": "light.a"}, {"area_id": "kitchen", "entity_id": "light.a"}),
        (
            {"target": {"entity_id": ["light.b", "light.c"]}, "entity_id": ["light.a", "light.b"]},
            {"entity_id": ["light.a", "light.b", "light.c"]},
        ),
    ],
)
async def test_a_target_is_told_as_it_was_sent(tmp_path: Path, aimed: Json, target: Json) -> None:
    ledger = SqliteLedger(tmp_path / "a.db", HandClock(), CountedIds())
    args = {"domain": "light", "service": "turn_on", **aimed}
    for kind, body in ((Kind.PERFORMING, {"args": args}), (Kind.SETTLED, {"data": None})):
        await ledger.commit(Work("default", (Draft(kind, "now", canonical(body), "c", tool="ha_call_service"),)))
    await ledger.close()
    with closing(open_reader(tmp_path / "a.db")) as reader:
        ((told,),) = reader.rows("SELECT target FROM ha_command_log")
    assert (told and json.loads(told)) == target


async def test_a_scene_is_a_command_of_its_own_domain(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOWED, services=[Commands({})]) as gate:
        await gate.call("ha_activate_scene", {"entity_id": "scene.movie", "transition": 1.5})
        (row,) = log(gate)
    assert (row["domain"], row["service"], row["target"], row["data"]) == (
        "scene",
        "turn_on",
        {"entity_id": "scene.movie"},
        {"transition": 1.5},
    )


@pytest.mark.parametrize(("code", "status"), [(2003, "error"), (2007, "unknown")])
async def test_a_command_that_failed_has_its_error_as_the_result(tmp_path: Path, code: int, status: str) -> None:
    async with a_gate(tmp_path, ALLOWED, services=[Commands(ToolError("no such lamp", code=code))]) as gate:
        outcome = await gate.call("ha_call_service", LAMP)
        (row,) = log(gate)
    assert (outcome.status.value, row["context_id"]) == (status, None)
    assert (row["result"]["code"], row["result"]["detail"]) == (code, "no such lamp")


async def test_only_what_was_sent_is_a_command(tmp_path: Path) -> None:
    policy = {"rules": [{"pattern": "ha_call_service(lock.*)", "action": "deny"}, *ALLOWED["rules"]]}
    async with a_gate(tmp_path, policy, services=[Commands({})]) as gate:
        await gate.call("ha_call_service", {"domain": "lock", "service": "unlock", "entity_id": "lock.door"})
        await gate.call("ha_call_service", {"domain": 7})
        assert log(gate) == []


async def test_a_command_that_a_person_agreed_to_is_told_with_its_arguments(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ASK_ALL, services=[Commands({"context_id": "x"})]) as gate:
        question = await pending(gate, "ha_call_service", LAMP)
        assert log(gate) == []
        await approve(gate, question)
        await outcome_of(gate, question)
        (row,) = log(gate)
    assert (row["domain"], row["data"], row["context_id"]) == ("light", {"brightness_pct": 80}, "x")


async def test_a_large_result_is_told_from_its_blob(tmp_path: Path) -> None:
    answer = {"context_id": "x", "changed": ["y" * 50_000]}
    async with a_gate(tmp_path, ALLOWED, services=[Commands(answer)]) as gate:
        await gate.call("ha_call_service", LAMP)
        assert [(row["result"], row["context_id"]) for row in log(gate)] == [(answer, "x")]


@pytest.mark.parametrize("answer", [{"context_id": "x"}, {"context_id": "x", "changed": ["y" * 50_000]}])
async def test_of_an_erased_command_only_the_moment_is_left(tmp_path: Path, answer: Json) -> None:
    async with a_gate(tmp_path, ALLOWED, services=[Commands(answer)]) as gate:
        outcome = await gate.call("ha_call_service", LAMP)
        (before,) = log(gate)
        assert isinstance(gate.ledger, SqliteLedger)
        await erase_call(gate.ledger, outcome.call_id, by="anna", clock=gate.clock, ids=gate.ids)
        (after,) = log(gate)
    assert after == dict.fromkeys(before) | {"id": before["id"], "issued_at": before["issued_at"]}


async def test_commands_of_a_time_are_found_by_the_documents_index(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOWED, services=[Commands({})]) as gate:
        await gate.call("ha_call_service", LAMP)
    question = "EXPLAIN QUERY PLAN SELECT * FROM ha_command_log WHERE issued_at > '2026' ORDER BY issued_at"
    with closing(open_reader(tmp_path / "gate.db")) as reader:
        steps = [row[3] for row in reader.rows(question)]
    assert "SEARCH p USING INDEX ix_ha_command_log_issued_at (at>?)" in steps

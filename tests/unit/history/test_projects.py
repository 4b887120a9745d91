"""Projects are made, locked, archived and opened again only in ways that make sense, and each is an entry."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from agent_gate import Gate
from agent_gate.history.projects import Project, Projects, list_projects
from agent_gate.history.verify import verify
from agent_gate.ledger.sqlite.reader import open_reader
from agent_gate.model.errors import GateError
from tests.unit.history.made import IDS, gate_at

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": False}


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[tuple[Gate, Projects]]:
    async with gate_at(folder / "a.db") as gate:
        yield gate, Projects(gate.ledger, gate.clock, IDS, "anna")


def listed(folder: Path) -> list[Project]:
    with closing(open_reader(folder / "a.db")) as reader:
        return list_projects(reader)


async def test_a_new_project_has_its_initial_state_and_is_listed(tmp_path: Path) -> None:
    async with opened(tmp_path) as (gate, projects):
        await projects.create("home", {"n": 1}, SCHEMA)
        assert (await gate.ledger.state("home")).document == {"n": 1}
        assert (await gate.call("count.up", by=2, project="home")).state_version == 1
    assert [(project.name, project.status, project.state_version) for project in listed(tmp_path)] == [
        ("default", "open", 0),
        ("home", "open", 1),
    ]
    assert listed(tmp_path)[1].to_json().keys() == {"project", "status", "created_at", "entries", "state_version"}
    assert verify(tmp_path / "a.db").ok


async def test_every_later_state_must_fit_the_schema(tmp_path: Path) -> None:
    async with opened(tmp_path) as (gate, projects):
        await projects.create("home", {}, SCHEMA)
        refused = await gate.call("state.set", path="m", value=1, project="home")
        assert refused.error is not None
        assert "does not fit the project's schema" in refused.error.detail


async def test_each_change_is_an_entry_that_names_who_made_it(tmp_path: Path) -> None:
    async with opened(tmp_path) as (_, projects):
        await projects.create("home")
        await projects.lock("home")
        await projects.unlock("home")
        await projects.archive("home")
        await projects.unlock("home")
    with closing(open_reader(tmp_path / "a.db")) as reader:
        rows = reader.connection.execute(
            "SELECT status, body ->> '$.action', body ->> '$.by' FROM entries WHERE project = 'home' ORDER BY seq"
        ).fetchall()
    assert rows == [
        ("open", "create", "anna"),
        ("locked", "lock", "anna"),
        ("open", "unlock", "anna"),
        ("archived", "archive", "anna"),
        ("open", "unlock", "anna"),
    ]
    assert verify(tmp_path / "a.db").ok


@pytest.mark.parametrize("change", ["lock", "archive"])
async def test_a_closed_project_takes_no_calls_until_it_is_unlocked(tmp_path: Path, change: str) -> None:
    async with opened(tmp_path) as (gate, projects):
        await projects.create("home")
        await getattr(projects, change)("home")
        refused = await gate.call("echo", text="x", project="home")
        assert refused.error is not None
        assert refused.error.code == 1017
        await projects.unlock("home")
        assert (await gate.call("echo", text="x", project="home")).ok


@pytest.mark.parametrize(
    ("before", "change"),
    [
        ([], "unlock"),
        (["lock"], "lock"),
        (["archive"], "archive"),
        (["archive"], "lock"),
    ],
)
async def test_a_change_that_starts_from_another_status_is_refused(
    tmp_path: Path, before: list[str], change: str
) -> None:
    async with opened(tmp_path) as (_, projects):
        await projects.create("home")
        for step in before:
            await getattr(projects, step)("home")
        with pytest.raises(GateError) as refused:
            await getattr(projects, change)("home")
        assert refused.value.code == 1017


async def test_a_locked_project_can_be_archived(tmp_path: Path) -> None:
    async with opened(tmp_path) as (_, projects):
        await projects.create("home")
        await projects.lock("home")
        await projects.archive("home")
    assert listed(tmp_path)[1].status == "archived"


async def test_the_default_project_can_be_locked_but_not_archived(tmp_path: Path) -> None:
    async with opened(tmp_path) as (_, projects):
        await projects.lock("default")
        with pytest.raises(GateError) as refused:
            await projects.archive("default")
        assert refused.value.code == 2002
    assert listed(tmp_path)[0].status == "locked"


@pytest.mark.parametrize("change", ["lock", "archive", "unlock"])
async def test_a_project_that_does_not_exist_cannot_be_changed(tmp_path: Path, change: str) -> None:
    async with opened(tmp_path) as (_, projects):
        with pytest.raises(GateError) as unknown:
            await getattr(projects, change)("home")
        assert unknown.value.code == 1017


@pytest.mark.parametrize("name", ["", "_gate", "_x", "-x", "Home", "a b", "a/b", "é", "a\n", "x" * 65, "a.b", "\u0661"])
async def test_a_name_must_be_plain(tmp_path: Path, name: str) -> None:
    async with opened(tmp_path) as (_, projects):
        for change in (projects.create, projects.lock, projects.archive, projects.unlock):
            with pytest.raises(GateError) as refused:
                await change(name)
            assert (refused.value.code, len(str(refused.value).splitlines())) == (2002, 1)
    assert [project.name for project in listed(tmp_path)] == ["default"]


async def test_names_of_every_allowed_length_are_taken(tmp_path: Path) -> None:
    async with opened(tmp_path) as (_, projects):
        for name in ("a", "0", "x" * 64, "a-b_c"):
            await projects.create(name)
    assert len(listed(tmp_path)) == 5


async def test_a_name_is_taken_once(tmp_path: Path) -> None:
    async with opened(tmp_path) as (_, projects):
        results = await asyncio.gather(*(projects.create("home") for _ in range(3)), return_exceptions=True)
        with pytest.raises(GateError, match="exists already"):
            await projects.create("default")
    errors = [result for result in results if result is not None]
    assert [error.code for error in errors if isinstance(error, GateError)] == [2002, 2002]


async def test_of_two_changes_at_once_the_second_sees_the_first(tmp_path: Path) -> None:
    async with opened(tmp_path) as (_, projects):
        await projects.create("home")
        results = await asyncio.gather(*(projects.lock("home") for _ in range(2)), return_exceptions=True)
    assert sorted(result is None for result in results) == [False, True]


@pytest.mark.parametrize(
    ("initial_state", "schema", "told"),
    [
        ({"n": "x"}, SCHEMA, "does not fit the state schema"),
        ({}, {"type": "nonsense"}, "is no JSON Schema"),
        ({}, {"$ref": "https://schemas.test/x"}, "is no JSON Schema"),
        ([], None, "the initial state is not an object"),
        ("text", None, "the initial state is not an object"),
        ({}, [], "the state schema is not an object"),
        ({"n": float("nan")}, None, "the initial state is not JSON"),
        ({"n": {1: 2}}, None, "the initial state is not JSON"),
    ],
)
async def test_a_state_or_schema_that_is_wrong_is_refused_and_nothing_is_made(
    tmp_path: Path, initial_state: Any, schema: Any, told: str
) -> None:
    async with opened(tmp_path) as (_, projects):
        with pytest.raises(GateError, match=told) as refused:
            await projects.create("home", initial_state, schema)
        assert (refused.value.code, len(str(refused.value).splitlines())) == (2002, 1)
    assert [project.name for project in listed(tmp_path)] == ["default"]

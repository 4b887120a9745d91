"""The service of the example, from a gate: its signatures, guard, undo and table work without a line of ours."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from agent_gate import Agent, Gate, GateError, load_policy, open_gate, replay_run, run_plan
from agent_gate.history.erase import erase_call
from agent_gate.history.verify import verify
from agent_gate.ledger.sqlite.storage import SqliteStorage
from agent_gate.model.errors import ConfigError
from agent_gate.model.outcome import Status
from agent_gate.model.plan import Plan, PlanStep
from agent_gate.model.service_tables import AddColumn, Column, ServiceTables, Table
from agent_gate.policy.judge import Judge
from agent_gate.toolkit.services import declarations

PACKAGE = Path(__file__).parents[2] / "examples" / "todo_service"
BOSS = Agent("boss", ("admin",))


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TODO_FILE", str(tmp_path / "todo.txt"))
    monkeypatch.syspath_prepend(str(PACKAGE))
    sys.modules.pop("agent_gate_todo", None)


def service() -> Any:
    from agent_gate_todo import TodoService  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415

    return TodoService()


@asynccontextmanager
async def a_todo_gate(directory: Path, policy: Any = PACKAGE / "policy.yaml", **brought: Any) -> AsyncIterator[Gate]:
    services = brought.get("services", [service()])
    async with open_gate(policy, directory / "gate.db", services=services, agent=BOSS, working_dir=directory) as gate:
        yield gate


def kept(directory: Path) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(directory / "gate.db")) as db:
        return db.execute("SELECT task, lists FROM todo_added ORDER BY at").fetchall()


async def test_a_call_has_a_signature_for_each_list_and_a_rule_about_one_denies_it(tmp_path: Path) -> None:
    async with a_todo_gate(tmp_path) as gate:
        put = await gate.call("todo.add", task="buy milk", lists=["main", "groceries"])
        refused = await gate.call("todo.add", task="buy milk", lists=["groceries", "work"])
    assert (put.status, put.signatures) == (
        Status.SUCCESS,
        ("todo.add(buy milk)", "todo.add(buy milk, groceries)"),
    )
    assert (refused.status, refused.signatures) == (
        Status.DENIED,
        ("todo.add(buy milk, groceries)", "todo.add(buy milk, work)"),
    )
    assert refused.error is not None
    assert "`todo.add(*, work)` (work has its own tracker)" in refused.error.detail
    assert (tmp_path / "todo-groceries.txt").read_text() == "buy milk\n"


async def test_the_guard_of_the_service_denies_what_its_section_does_not_list(tmp_path: Path) -> None:
    async with a_todo_gate(tmp_path) as gate:
        elsewhere = await gate.call("todo.add", task="x", lists=["holidays"])
        long = await gate.call("todo.add", task="x" * 81)
    assert elsewhere.error is not None
    assert long.error is not None
    assert (elsewhere.error.code, elsewhere.error.detail) == (1001, "list `holidays` is not in allow_lists of todo.add")
    assert long.error.code == 1006


async def test_without_its_section_the_tool_is_denied(tmp_path: Path) -> None:
    async with a_todo_gate(tmp_path, {"rules": [{"pattern": "*", "action": "allow"}]}) as gate:
        refused = await gate.call("todo.add", task="x")
    assert refused.error is not None
    assert refused.error.detail == "`todo.add` has no section under tools: in the policy"
    assert refused.error.suggestion == "add one: tools: {todo.add: {allow_lists: [main]}}"


@pytest.mark.parametrize(
    ("section", "told"),
    [
        ("{allow_list: [main]}", "2: tools.todo.add.allow_list: unknown field; did you mean `allow_lists`?"),
        ("{max_chars: 0}", "2: tools.todo.add.max_chars: `0` is too small; it must be at least 1"),
        ("{allow_lists: main}", "2: tools.todo.add.allow_lists: `main` is not a list; write [a, b]"),
        ("{allow_lists: ['*']}", "2: tools.todo.add: allow_lists names lists one by one, and `*` is none"),
    ],
)
async def test_a_mistake_in_its_section_is_told_with_its_line_like_any_other(
    tmp_path: Path, section: str, told: str
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(f"tools:\n  todo.add: {section}\n")
    with pytest.raises(ConfigError) as refused:
        async with a_todo_gate(tmp_path, policy):
            pass
    assert (refused.value.code, str(refused.value)) == (6001, f"config: {policy}:{told}")


async def test_a_section_of_a_service_that_is_not_loaded_is_refused_by_the_name_of_the_service(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"`todo\.add` is not a tool here: the service `todo` is missing"):
        async with a_todo_gate(tmp_path, services=[]):
            pass
    with pytest.raises(ConfigError, match="`ha_call_service` takes no section"):
        load_policy({"tools": {"ha_call_service": {}}})


async def test_its_calls_are_undone_and_the_undoing_is_undone(tmp_path: Path) -> None:
    async with a_todo_gate(tmp_path) as gate:
        put = await gate.call("todo.add", task="buy milk", lists=["main", "groceries"])
        undone = await gate.call("gate.revert", call_id=put.call_id)
        assert (undone.status, undone.data) == (Status.SUCCESS, {"taken_off": "buy milk"})
        assert (tmp_path / "todo.txt").read_text() == ""
        again = await gate.call("gate.revert", call_id=undone.call_id)
    assert again.status is Status.SUCCESS
    assert (tmp_path / "todo.txt").read_text() == "buy milk\n"


async def test_its_table_is_filled_with_the_call_verified_backed_up_and_erased(tmp_path: Path) -> None:
    async with a_todo_gate(tmp_path) as gate:
        first = await gate.call("todo.add", task="buy milk")
        await gate.call("todo.add", task="buy bread", lists=["groceries"])
        failed = await gate.call("todo.add", task="x\x07")
        assert failed.status is Status.ERROR
        assert kept(tmp_path) == [("buy milk", "main"), ("buy bread", "groceries")]
        storage = SqliteStorage(tmp_path / "gate.db")
        assert verify(storage).problems == ()
        storage.backup(tmp_path / "copy.db")
        await erase_call(gate.ledger, first.call_id, by="anna", clock=gate.clock, ids=gate.ids)
        assert kept(tmp_path) == [("buy bread", "groceries")]
        assert verify(storage).problems == ()
    with closing(sqlite3.connect(tmp_path / "copy.db")) as copy:
        assert copy.execute("SELECT count(*) FROM todo_added").fetchone() == (2,)


async def test_a_table_is_migrated_step_by_step_and_one_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    whole = service().tables
    earlier = service()
    earlier.tables = ServiceTables("todo", whole.steps[:1])
    async with a_todo_gate(tmp_path, services=[earlier]):
        pass
    with closing(sqlite3.connect(tmp_path / "gate.db")) as db:
        db.execute("INSERT INTO todo_added VALUES ('c', 'an old one', '2026')")
        db.commit()
    async with a_todo_gate(tmp_path) as gate:
        await gate.call("todo.add", task="a new one")
    assert kept(tmp_path) == [("an old one", None), ("a new one", "main")]
    with pytest.raises(ConfigError, match="made by a newer version of it"):
        async with a_todo_gate(tmp_path, services=[earlier]):
            pass


async def test_a_run_is_replayed_by_the_guard_of_the_service_that_is_loaded(tmp_path: Path) -> None:
    tasks: list[dict[str, Any]] = [{"task": "buy milk"}, {"task": "x", "lists": ["holidays"]}]
    plan = Plan(tuple(PlanStep("todo.add", args) for args in tasks), name="todo")
    async with a_todo_gate(tmp_path) as gate:
        run = await run_plan(gate, plan, fail_fast=False)
        assert [outcome.status for outcome in run.outcomes] == [Status.SUCCESS, Status.DENIED]
        replayed = await replay_run(gate, run.run_id)
        assert list(replayed.mismatches) == []
    async with a_todo_gate(tmp_path, {"version": 1}, services=[]) as gate:
        with pytest.raises(GateError, match="the recorded policy cannot be read"):
            await replay_run(gate, run.run_id)


def test_a_declaration_of_tables_that_cannot_be_made_is_refused() -> None:
    key = Column("a", is_key=True)
    with pytest.raises(ValueError, match="does not begin with `todo_`"):
        ServiceTables("todo", (Table("entries", (key,)),))
    with pytest.raises(ValueError, match="is no name of a column"):
        Column("a; DROP TABLE entries")
    with pytest.raises(ValueError, match="needs a key"):
        Table("todo_a", (Column("a"),))
    with pytest.raises(ValueError, match="there is no table `todo_b`"):
        ServiceTables("todo", (AddColumn("todo_b", Column("c", may_be_null=True)),))


def test_its_calls_can_be_judged_where_it_was_never_started() -> None:
    tools = {tool.name: tool for tool in declarations(service())}
    judge = Judge(load_policy(PACKAGE / "policy.yaml", tools=tools))
    assert judge.judged(tools["todo.add"]).guard is not None

"""To-do lists as a service: text files, one tool that reads them, and one that adds to them and can be undone.

It shows all that a service can bring: signatures of its own, a guard with its section of the policy, an undo, a table.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated, Any

from agent_gate import ToolError, tool
from agent_gate.toolkit import (
    AddColumn,
    Column,
    Guard,
    GuardContext,
    GuardedBy,
    Section,
    ServiceRows,
    ServiceTables,
    Setting,
    Table,
    WithRows,
    allow,
    current_call,
    deny,
    encoded_text,
)

TASKS_MAX = 1_000
MAIN = "main"
TASKS = Table("todo_added", (Column("call_id", is_key=True), Column("task"), Column("at")), moment="at", call="call_id")


@dataclass(frozen=True, slots=True)
class AddGuard:
    """The section `todo.add` under `tools:` of a policy."""

    allow_lists: Annotated[tuple[str, ...], Setting("lists that tasks may be put on; none where empty")] = ()
    max_chars: Annotated[int, Setting("the length of the longest task", minimum=1, maximum=10_000)] = 200


def sign_add(args: Mapping[str, Any]) -> tuple[str, ...]:
    """One signature for each list: a rule may deny one of them, and with it the call."""
    task = encoded_text("task", args["task"])
    lists = [encoded_text("lists", name) for name in args.get("lists") or [MAIN]]
    return tuple(f"todo.add({task})" if name == MAIN else f"todo.add({task}, {name})" for name in lists)


def guard_of_add(section: AddGuard, _: GuardContext) -> Guard:
    if "*" in section.allow_lists:
        raise ValueError("allow_lists names lists one by one, and `*` is none")

    def guard(bound: Any, _: Any) -> Any:
        for name in bound.args.get("lists") or [MAIN]:
            if name not in section.allow_lists:
                return deny("guard", 1001, f"list `{name}` is not in allow_lists of todo.add", "add it there")
        if len(bound.args["task"]) > section.max_chars:
            return deny("guard", 1006, f"the task is longer than max_chars of todo.add ({section.max_chars})")
        return allow("guard", "allow_lists")

    return guard


ADD_GUARD = GuardedBy(guard_of_add, Section(AddGuard, "tools: {todo.add: {allow_lists: [main]}}"))


class TodoService:
    """Found by its entry point; a gate makes one, gives it its table, and calls its tools."""

    tables = ServiceTables("todo", (TASKS, AddColumn("todo_added", Column("lists", may_be_null=True))))
    """The column `lists` came with the second version."""
    _rows: ServiceRows

    def __init__(self) -> None:
        self._path = Path(os.environ.get("TODO_FILE", "todo.txt")).absolute()

    def use_tables(self, rows: ServiceRows) -> None:
        self._rows = rows

    def tools(self) -> Sequence[Callable[..., Any]]:
        @tool("todo.list", effect="read", risk="low", cost=0)
        async def list_tasks(containing: str = "") -> dict[str, Any]:
            """List the tasks, or those that contain a word."""
            return {"tasks": [task for task in self._tasks(MAIN) if containing in task]}

        @tool("todo.add", risk="low", cost=1, sign=sign_add, guard=ADD_GUARD, undo=self._take_off)
        async def add_task(task: str, lists: list[str] | None = None) -> WithRows:
            """Put a task at the end of one or several lists."""
            if not task.strip() or not task.isprintable():
                raise ToolError("a task is one line of text", code=2002, suggestion="write what is to be done")
            chosen = lists or [MAIN]
            if any(len(self._tasks(name)) >= TASKS_MAX for name in chosen):
                raise ToolError(f"a list has {TASKS_MAX} tasks", code=2006, suggestion="do some of them first")
            for name in chosen:
                self._write(name, [*self._tasks(name), task])
            row = current_call().call_id, task, datetime.now(timezone.utc).isoformat(), " ".join(chosen)
            return self._rows.with_result({"task": task, "lists": chosen}, "todo_added", row)

        return [list_tasks, add_task]

    async def execute(self, tool_name: str, args: Mapping[str, Any]) -> Any:  # noqa: ARG002 -- the service's shape
        raise ToolError(f"`{tool_name}` is a function of its own: call it through the gate")

    async def _take_off(self, args: dict[str, Any], data: Any) -> Any:
        """Undo: what people did with the lists since stays; a task that is gone is theirs to explain."""
        task, lists = args["task"], data["lists"]
        if any(task not in self._tasks(name) for name in lists):
            raise ToolError(f"`{task}` is no longer on the list", suggestion="somebody may have done it")
        for name in lists:
            tasks = self._tasks(name)
            newest = len(tasks) - 1 - tasks[::-1].index(task)
            self._write(name, tasks[:newest] + tasks[newest + 1 :])
        return {"taken_off": task}

    def _tasks(self, name: str) -> list[str]:
        try:
            return self._path_of(name).read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []

    def _write(self, name: str, tasks: Sequence[str]) -> None:
        """All or nothing: a reader never sees half a list."""
        path = self._path_of(name)
        new = path.with_name(f"{path.name}.new")
        new.write_text("".join(f"{task}\n" for task in tasks), encoding="utf-8")
        new.replace(path)

    def _path_of(self, name: str) -> Path:
        if not name.isalnum():
            raise ToolError(f"`{name}` is no name of a list", code=2002, suggestion="use letters and digits")
        return self._path if name == MAIN else self._path.with_name(f"{self._path.stem}-{name}.txt")

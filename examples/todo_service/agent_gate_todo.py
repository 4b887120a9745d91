"""A to-do list as a service: a plain text file, one tool that reads it, and one that adds to it and can be undone."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from agent_gate import ToolError, tool
from agent_gate.model.tool import Json, ToolDeclaration
from agent_gate.ports import RegisteredTool
from agent_gate.toolkit import registered_tool

TASKS_MAX = 1_000


class TodoService:
    """Found by its entry point; a gate makes one, starts it, calls its tools, and closes it."""

    name = "todo"
    dependencies: Sequence[str] = ()

    def __init__(self) -> None:
        self._path = Path(os.environ.get("TODO_FILE", "todo.txt")).absolute()
        self._lock = threading.Lock()
        """Two calls at once must not both start from the same list."""

    def tools(self) -> Sequence[ToolDeclaration]:
        return [registered.declaration for registered in self.registered_tools()]

    def registered_tools(self) -> Sequence[RegisteredTool]:
        """The functions below may block: the gate runs each in a thread."""

        @tool("todo.list", effect="read", risk="low", cost=0)
        def list_tasks(containing: str = "") -> dict[str, Json]:
            """List the tasks, or those that contain a word."""
            return {"tasks": [task for task in self._tasks() if containing in task]}

        @tool("todo.add", effect="write", risk="low", cost=1, undo=self._take_off)
        def add_task(task: str) -> dict[str, Json]:
            """Put a task at the end of the list."""
            if not task.strip() or not task.isprintable():
                raise ToolError("a task is one line of text", code=2002, suggestion="write what is to be done")
            with self._lock:
                tasks = self._tasks()
                if len(tasks) >= TASKS_MAX:
                    raise ToolError(f"the list has {TASKS_MAX} tasks", code=2006, suggestion="do some of them first")
                self._write([*tasks, task])
            return {"task": task, "tasks": len(tasks) + 1}

        return [registered_tool(list_tasks), registered_tool(add_task)]

    async def start(self) -> None: ...

    async def execute(self, tool_name: str, args: Mapping[str, Json]) -> Json:  # noqa: ARG002 -- the service's shape
        raise ToolError(f"`{tool_name}` has a hand of its own: call it through the gate")

    async def health_check(self) -> bool:
        return self._path.parent.is_dir()

    async def close(self) -> None: ...

    def _take_off(self, args: dict[str, Json], data: Json) -> Json:
        """Undo: what people did with the list since stays; a task that is gone is theirs to explain."""
        with self._lock:
            tasks = self._tasks()
            if args["task"] not in tasks:
                raise ToolError(f"`{args['task']}` is no longer on the list", suggestion="somebody may have done it")
            newest = len(tasks) - 1 - tasks[::-1].index(args["task"])
            self._write(tasks[:newest] + tasks[newest + 1 :])
        return {"taken_off": data["task"]}

    def _tasks(self) -> list[str]:
        try:
            return self._path.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []

    def _write(self, tasks: Sequence[str]) -> None:
        """All or nothing: a reader never sees half a list."""
        new = self._path.with_name(f"{self._path.name}.new")
        new.write_text("".join(f"{task}\n" for task in tasks), encoding="utf-8")
        new.replace(self._path)

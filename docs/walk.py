"""Prints the functions of agent_gate that one allowed call passes, in order: `python docs/walk.py`.

A server is started as `agent-gate serve` starts it, on a free port of this machine, with one service that an installed
package offers. An agent calls its tool over a WebSocket several times; what every one of these calls passed is the way
of a call. What a server does by itself every now and then is in some of them only, and is left out.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, FrameType
from typing import Any, NamedTuple

from websockets.sync.client import ClientConnection, connect

import agent_gate
from agent_gate.hosts.server import run, settings_of
from agent_gate.model.tool import Effect, Json, Risk, ToolDeclaration

TOKEN = "token-of-the-walk-0123456789abcdef"
CONFIG = {
    "gateway": {"host": "127.0.0.1", "port": 0},
    "agents": [{"id": "walker", "token": TOKEN}],
    "storage": {"type": "sqlite", "path": "gate.db"},
}
POLICY = {"rules": [{"pattern": "note.read(*)", "action": "allow"}]}
CALL = {"tool": "note.read", "args": {"title": "milk"}}
WARM_UP, CALLS = 3, 5
"""Calls that are not looked at, because what is kept for later is made in them, and those that are."""
AFTERWARDS_S = 0.05
"""How long what follows an answer is waited for."""
ROOT = Path(agent_gate.__file__).parent


class Notes:
    """A service with one tool that only reads."""

    def tools(self) -> Sequence[ToolDeclaration]:
        schema = {"type": "object", "properties": {"title": {"type": "string"}}, "additionalProperties": False}
        return [ToolDeclaration("note.read", "Read a note.", schema, effect=Effect.READ, risk=Risk.LOW, cost=0)]

    async def execute(self, tool_name: str, args: Mapping[str, Json]) -> Json:
        return {"tool": tool_name, "title": args["title"]}


class Step(NamedTuple):
    """One function that was passed, and in which thread."""

    file: str
    function: str
    thread: str


class Walk:
    """Notes each function of the package when it is first entered after `begin`, in whichever thread."""

    def __init__(self) -> None:
        self._names: dict[CodeType, tuple[str, str] | None] = {}
        self._steps: dict[Step, None] | None = None

    def begin(self) -> None:
        self._steps = {}

    def end(self) -> list[Step]:
        steps, self._steps = self._steps or {}, None
        return list(steps)

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        steps, code = self._steps, frame.f_code
        if event != "call" or steps is None:
            return
        if code not in self._names:
            self._names[code] = _name(code)
        name = self._names[code]
        if name is not None:
            steps.setdefault(Step(*name, threading.current_thread().name))


def _name(code: CodeType) -> tuple[str, str] | None:
    """File and function; a lambda or a generator expression is part of the function that it stands in."""
    path = Path(code.co_filename)
    if not path.is_relative_to(ROOT):
        return None
    return str(path.relative_to(ROOT)), code.co_qualname.partition(".<locals>.<")[0]


def walk(directory: Path) -> list[Step]:
    """What every call passed, in the order of the last one."""
    note, walks, failures = Walk(), list[list[Step]](), list[Exception]()

    def call_from_elsewhere(url: str) -> None:
        try:
            with connect(url, additional_headers={"Authorization": f"Bearer {TOKEN}"}, proxy=None) as agent:
                for number in range(WARM_UP + CALLS):
                    note.begin()
                    _call(agent, number)
                    time.sleep(AFTERWARDS_S)
                    walks.append(note.end())
        except Exception as error:
            failures.append(error)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    def tell(event: str, _: str, fields: Mapping[str, Any]) -> None:
        if event == "serving":
            threading.Thread(target=call_from_elsewhere, args=(fields["agents"],), name="agent").start()

    _write(directory)
    os.chdir(directory)
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        run(settings_of(Path("config.yaml"), Path("policy.yaml")), tell)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    if failures:
        raise failures[0]
    seen = [set(steps) for steps in walks[WARM_UP:]]
    return [step for step in walks[-1] if all(step in steps for steps in seen)]


def _write(directory: Path) -> None:
    (directory / "config.yaml").write_text(json.dumps(CONFIG))
    (directory / "config.yaml").chmod(0o600)
    (directory / "policy.yaml").write_text(json.dumps(POLICY))
    package = directory / "notes-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: notes\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(f"[agent_gate.services]\nnotes = {__name__}:Notes\n")
    sys.path.append(str(directory))


def _call(agent: ClientConnection, number: int) -> None:
    agent.send(json.dumps({"jsonrpc": "2.0", "id": number, "method": "tool_request", "params": CALL}))
    answer = json.loads(agent.recv(timeout=20))
    assert answer.get("result", {}).get("status") == "success", answer


def main() -> None:
    with TemporaryDirectory() as directory:
        steps = walk(Path(directory).resolve())
    last = ""
    for step in steps:
        where, last = step.file if step.file != last else "", step.file
        thread = "" if step.thread == "MainThread" else f"   [{step.thread}]"
        print(f"{where:<40}{step.function}{thread}")
    functions = {(step.file, step.function) for step in steps}
    print(f"\n{len(functions)} functions in {len({file for file, _ in functions})} files")


if __name__ == "__main__":
    main()

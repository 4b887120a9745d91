"""The ways to each code of the error table, by number; each brings a real gate to say it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from agent_gate import Gate, GateError, Outcome, load_plan, run_plan
from agent_gate.model.errors import Problem
from agent_gate.model.tool import Json
from tests.gates import a_gate, soon

GUARDED: dict[str, Any] = {
    "boundary": "deny_by_default",
    "rules": [{"pattern": "state.*", "action": "allow"}, {"pattern": "state.delete*", "action": "deny"}],
    "tools": {
        "fs.read": {"allow_paths": ["./**"]},
        "fs.write": {"allow_paths": ["./out/**"], "max_size_bytes": 8},
        "http.get": {"allow_domains": ["api.example.com", "127.0.0.1"]},
        "shell.run": {"allow_executables": ["ls", "echo"], "deny_tokens": ["rm -rf"]},
    },
}

Reach = Callable[[Path], Awaitable[Problem]]
REACHED: dict[int, Reach] = {}
ELSEWHERE = {1020}
"""Reached where a run is broken off or a caller goes away: tests of plans and of approvals."""


def reaches(code: int) -> Callable[[Reach], Reach]:
    def note(function: Reach) -> Reach:
        REACHED[code] = function
        return function

    return note


def problem(outcome: Outcome) -> Problem:
    assert outcome.error is not None, outcome
    return outcome.error


async def refused(directory: Path, tool_name: str, *tools: Any, policy: Any = GUARDED, **args: Json) -> Problem:
    async with a_gate(directory, policy, *tools, working_dir=directory) as gate:
        return problem(await soon(gate.call(tool_name, args)))


async def raised(promise: Awaitable[Any]) -> Problem:
    with pytest.raises(GateError) as error:
        await soon(promise)
    return error.value.problem


def steps(*tools: str | tuple[str, Mapping[str, Json]]) -> dict[str, Any]:
    named = [(step, {}) if isinstance(step, str) else step for step in tools]
    return {"version": "1.0", "name": "p", "steps": [{"tool": name, "args": dict(args)} for name, args in named]}


async def planned(gate: Gate, *tools: str | tuple[str, Mapping[str, Json]]) -> Problem:
    result = await soon(run_plan(gate, load_plan(steps(*tools))))
    return result.problem or problem(result.outcomes[-1])

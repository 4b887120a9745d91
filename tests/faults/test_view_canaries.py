"""Whatever program is given whatever words, no byte of a file that may not be read comes out, and none is changed."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent_gate import Gate, Outcome, open_gate
from agent_gate.gate.plans import run_plan
from agent_gate.gate.recorded_runs import replay_run
from agent_gate.model.call import CallRequest
from agent_gate.model.plan import Plan, PlanStep
from agent_gate.sandbox.choice import Choice, Sandbox, probe
from tests.faults.viewing import World, command_lines, make_world

THOROUGH = os.environ.get("AGENT_GATE_THOROUGH") == "1"
SANDBOXES: dict[str, Sandbox] = {
    offer.name: offer.sandbox for offer in asyncio.run(probe()) if offer.works and offer.sandbox is not None
}
LEDGER_CANARY = "CANARY-of-the-ledger"
CALLS = {"bubblewrap": 400, "sandlock": 100, "off": 160}
TOGETHER = 4
"""Calls under way at once."""


class Only(Choice):
    """One sandbox, whatever else the machine has."""

    def __init__(self, sandbox: Sandbox) -> None:
        super().__init__()
        self._best, self._tried = sandbox, True


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_world(tmp_path.resolve())


@asynccontextmanager
async def gate_in(world: World, kind: str) -> AsyncIterator[Gate]:
    """The gate's own files lie where commands run; its ledger has something to tell."""
    choice = Only(SANDBOXES[kind]) if kind != "off" else Choice()
    policy = world.policy("off" if kind == "off" else "auto")
    async with open_gate(
        policy,
        world.work / "gate.db",
        working_dir=world.work,
        own_files=[world.work / "config.yaml"],
        sandboxes=choice,
    ) as gate:
        await gate.call("shell.run", argv=["echo", LEDGER_CANARY])
        yield gate


def leaked(world: World, outcome: Outcome) -> list[str]:
    text = json.dumps(outcome.to_json(), ensure_ascii=False)
    return world.found_in(text) + ([LEDGER_CANARY] if LEDGER_CANARY in text else [])


@pytest.mark.parametrize("kind", ["bubblewrap", "sandlock", "off"])
async def test_no_command_shows_or_changes_what_may_not_be_read(kind: str, world: World) -> None:
    if kind != "off" and kind not in SANDBOXES:
        pytest.skip(f"{kind} does not work here")
    before = world.contents()
    lines = command_lines(world, None if THOROUGH else CALLS[kind], seed=len(kind))
    shown: list[tuple[list[str], list[str]]] = []
    ran = 0
    async with gate_in(world, kind) as gate:
        for at in range(0, len(lines), TOGETHER):
            calls = [gate.call("shell.run", argv=line, timeout=2) for line in lines[at : at + TOGETHER]]
            for line, outcome in zip(lines[at:], await asyncio.gather(*calls), strict=False):
                ran += outcome.ok
                if found := leaked(world, outcome):
                    shown.append((line, found))
    assert shown == [], json.dumps(shown, indent=1)
    assert world.contents() == before
    # Most lines are refused; that many must not be, or nothing was tried.
    assert ran > len(lines) // 5


@pytest.mark.skipif("bubblewrap" not in SANDBOXES, reason="no bubblewrap here")
async def test_neither_files_nor_simulations_nor_replays_nor_reverts_show_or_change_any(world: World) -> None:
    before = world.contents()
    paths = [*world.canaries, "open/work/sub/hard", "open/work/sub/link", "open/work/sub/within", "open/work/gate.db"]
    outcomes: list[Outcome] = []
    async with gate_in(world, "bubblewrap") as gate:
        for name in paths:
            path = str(world.root / name)
            outcomes.append(await gate.call("fs.read", path=path))
            outcomes.append(await gate.call("fs.write", path=path, content="changed"))
            request = CallRequest(gate.agent, "fs.read", {"path": path})
            outcomes.append((await gate.simulate(request, with_reads=True))[0])
            outcomes.append(await gate.call("gate.revert", call_id=outcomes[-2].call_id, wait=False))
        assert not any(outcome.ok for outcome in outcomes)
        for line in (["diff", "-N", "empty", "."], ["git", "log", "-p"], ["grep", "-r", "CANARY", ".."]):
            request = CallRequest(gate.agent, "shell.run", {"argv": line})
            outcomes.append((await gate.simulate(request, with_reads=True))[0])
            assert outcomes[-1].ok
        run = await run_plan(gate, Plan((PlanStep("shell.run", {"argv": ["diff", "-N", "empty", "."]}),)))
        replayed = await replay_run(gate, run.run_id)
        assert world.found_in(repr(replayed)) == []
    assert [outcome for outcome in outcomes if leaked(world, outcome)] == []
    assert world.contents() == before

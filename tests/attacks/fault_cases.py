"""One call whose process is killed, or whose disk fails or is locked, at a named point between intent and outcome."""

from __future__ import annotations

import asyncio
import atexit
import errno
import os
import signal
import sqlite3
import tempfile
import threading
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from agent_gate import Gate, open_gate, tool
from agent_gate.history.verify import verify
from tests.attacks.cases import Case
from tests.attacks.runner import CheckFailed, Skipped
from tests.faults import shim
from tests.faults.nursery import Nursery
from tests.faults.programs import POLICY, tell
from tests.faults.shim import Action, Fault, Op

CHECKS = frozenset({"files", "effects", "ledger_verifies", "state_after_restart", "refuses_until_reopened"})

LOG = "case.db-wal"
RECOVERY_S = 10.0

_POINTS = {
    "before_intent_durable": "intent",
    "before_intent": "intent",
    "during_intent": "intent",
    "intent_record": "intent",
    "intent": "intent",
    "after_intent_before_effect": "before the effect",
    "after_intent_durable": "before the effect",
    "after_intent": "before the effect",
    "before_effect": "before the effect",
    "after_effect_before_outcome": "after the effect",
    "after_effect": "after the effect",
    "before_outcome_durable": "outcome",
    "before_outcome": "outcome",
    "during_outcome": "outcome",
    "outcome_record": "outcome",
    "outcome": "outcome",
    "after_outcome_durable": "before the answer",
    "after_outcome_before_answer": "before the answer",
    "after_outcome": "before the answer",
}
"""The cases' names for the points of a call's way, in ours."""

_STATES = {"in_doubt": ["unknown"], "done": ["success"], "settled": ["success"], "absent": [], "none": []}


def run(case: Case, root: Path) -> str:
    if case.tool == "fault.commit":
        return _run_command(case, root)
    plan = _plan(case.args)
    db, acts = root / "case.db", root / "acts"
    nursery = _nursery()
    code, told = nursery.start(f"{__name__}:play", db=str(db), acts=str(acts), **plan).wait()
    if (code == -signal.SIGKILL) != ("kill" in plan):
        raise CheckFailed(f"the process ended with {code}")
    nursery.run("create", db=str(db))
    endings = _endings(db)
    _check(case.check, endings, db, acts, told)
    if "kill" in plan:
        return {"success": "allow", "unknown": "error"}[endings[0]] if endings else "deny"
    (outcome,) = [message["outcome"] for message in told if "outcome" in message]
    return {"success": "allow", "denied": "deny"}.get(outcome["status"], "error")


def _run_command(case: Case, root: Path) -> str:
    """A command that changes, adds and removes a file, killed or failed at a step of its commit."""
    work, db = root.resolve() / "work", root / "case.db"
    work.mkdir()
    for name in ("changed", "removed"):
        (work / name).write_text("old\n")
    program = {"db": str(db), "work": str(work)}
    nursery = _nursery()
    nursery.run("one_command", **program, script="")
    action = Action.KILL if "kill9_at_step" in case.args else Action.FAIL
    fault = Fault(action, match=f"{work}/", nth=case.args.get("kill9_at_step") or case.args["eio_at_step"])
    script = "echo new > changed; echo new > added; rm removed"
    nursery.start("one_command", **program, script=script, fault=asdict(fault)).wait()
    nursery.run("one_command", **program, script="")
    left = {path.name: path.read_text() for path in work.iterdir()}
    states = {"all": {"changed": "new\n", "added": "new\n"}, "none": {"changed": "old\n", "removed": "old\n"}}
    found = next((name for name, files in states.items() if files == left), f"neither all nor none: {sorted(left)}")
    if found != case.check["files"]:
        raise CheckFailed(f"files: expected {case.check['files']}, found {found}")
    _check(case.check, [], db, root / "acts", [])
    with closing(sqlite3.connect(db)) as connection:
        (status,) = connection.execute("SELECT status FROM entries WHERE kind = 'settled'").fetchone()
    return {"success": "allow", "denied": "deny"}.get(status, "error")


def _plan(args: Mapping[str, Any]) -> dict[str, Any]:
    match dict(args):
        case {"kill9_at": point} if point in _POINTS:
            return {"kill": _POINTS[point]}
        case {"enospc_at": point} if point in _POINTS:
            return {"fail": _POINTS[point], "ops": Op.WRITE, "error": errno.ENOSPC}
        case {"fsync_error": name, **rest} if hasattr(errno, name) and rest.get("at", "intent_record") in _POINTS:
            return {"fail": _POINTS[rest.get("at", "intent_record")], "ops": Op.SYNC, "error": getattr(errno, name)}
        case {"sqlite_lock_held_s": seconds}:
            return {"locked_s": seconds}
        case _:
            raise Skipped


@cache
def _nursery() -> Nursery:
    """Kept for all cases of one run, because it takes a second to warm up."""
    if shim.COMPILER is None:
        raise Skipped
    folder = tempfile.TemporaryDirectory(prefix="shim-")
    nursery = Nursery(preload=shim.build(Path(folder.name)))
    atexit.register(folder.cleanup)
    atexit.register(nursery.__exit__)
    return nursery


def _endings(db: Path) -> list[str]:
    with closing(sqlite3.connect(db)) as connection:
        return [
            status
            for (status,) in connection.execute(
                "SELECT status FROM entries WHERE kind = 'settled' AND request_id = 'the call'"
            )
        ]


def _check(check: Mapping[str, Any], endings: list[str], db: Path, acts: Path, told: list[Any]) -> None:
    for name, wanted in check.items():
        match name:
            case "effects":
                found: object = len(acts.read_text().splitlines()) if acts.exists() else 0
            case "ledger_verifies":
                found = verify(db).ok
            case "state_after_restart":
                found = wanted if _STATES.get(wanted) == endings else endings
            case "refuses_until_reopened":
                found = {"refused": 5002} in told and {"mended": True} in told
            case _:
                continue
        if found != wanted:
            raise CheckFailed(f"{name}: expected {wanted}, found {found}")


async def play(
    db: str, acts: str, kill: str = "", fail: str = "", ops: int = 0, error: int = 0, locked_s: float = 0
) -> None:
    """Runs in a fork: the call, with whatever befalls it."""

    def befall(point: str) -> None:
        if kill == point and point in ("intent", "outcome"):
            Fault(Action.KILL, Op.WRITE, LOG).arm()
        elif kill == point:
            os.kill(os.getpid(), signal.SIGKILL)
        elif fail == point:
            Fault(Action.FAIL, Op(ops), LOG, error=error, times=1 if ops == Op.SYNC else -1).arm()

    @tool("fault.run")
    async def act() -> None:
        befall("before the effect")
        with open(acts, "a") as file:  # noqa: ASYNC230 -- one line
            file.write("effect\n")
        befall("after the effect")
        befall("outcome")

    async with open_gate(POLICY, db, tools=[act]) as gate:
        if locked_s:
            _lock(db, locked_s)
        befall("intent")
        outcome = await gate.call("fault.run", request_id="the call")
        befall("before the answer")
        tell({"outcome": {"status": outcome.status.value}})
        if fail:
            await _look_whether_it_mends(gate)


async def _look_whether_it_mends(gate: Gate) -> None:
    refused = await gate.call("state.set", path="a", value=1)
    tell({"refused": refused.error.code if refused.error else 0})
    shim.disarm()
    async with asyncio.timeout(RECOVERY_S):
        while not (await gate.call("state.set", path="a", value=2)).ok:  # noqa: ASYNC110 -- nobody tells an agent
            await asyncio.sleep(0.02)
    tell({"mended": True})


def _lock(db: str, seconds: float) -> None:
    other = sqlite3.connect(db, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN EXCLUSIVE")

    def let_go() -> None:
        other.execute("ROLLBACK")
        other.close()

    threading.Timer(seconds, let_go).start()

"""Approvals from the question to the act: real buttons in a chat, pressed by whom and when a case says."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent_gate import load_policy
from agent_gate.policy.judge import Judge
from tests.attacks import approval_grants, approval_requests
from tests.attacks.approval_life import Doomed, Life, Plan, ledger_of, living, user_id
from tests.attacks.cases import Case
from tests.attacks.runner import CheckFailed, Skipped
from tests.bot_api import BotApi, Message
from tests.gates import HandClock, soon, until

CHECKS = frozenset({"executions"})

_ENDS = {"success": "allow", "denied": "deny", "expired": "deny"}
_KILLS = frozenset({"kill9_and_restart", "kill9", "crash_and_restart", "restart"})
_WAITS = frozenset({"tick", "wait", "executed"})


def run(case: Case, root: Path) -> str:
    if case.tool == "approval.request":
        return approval_requests.run(case, root)
    if case.tool == "approval.grant":
        return asyncio.run(approval_grants.play(case))
    (root / "work").mkdir(exist_ok=True)
    try:
        return asyncio.run(Flow(case, root).play())
    finally:
        shutil.rmtree(ledger_of(root).parent, ignore_errors=True)


class Flow:
    """The events of one case, on one ledger, in as many lives of the gate as it takes."""

    def __init__(self, case: Case, root: Path) -> None:
        self._case, self._root, self._db = case, root, ledger_of(root)
        self._call: Mapping[str, Any] = case.args["call"]
        self._events: Sequence[Mapping[str, Any]] = case.args["events"]
        self._api = BotApi(HandClock().now)
        self._asked: list[tuple[str, Message]] = []
        """Every call with the message about it, as it was when it was asked."""

    async def play(self) -> str:
        async with self._api.serving():
            plan = self._plan()
            for events in _lives(self._events)[:-1]:
                life = await Doomed.start(plan)
                for event in events:
                    await self._happen(event, life)
                await life.kill()
                plan = replace(plan, started_s=events[-1]["t"] if events else 0.0)
            async with AsyncExitStack() as stack:
                last = await stack.enter_async_context(living(plan, self._api))
                for event in _lives(self._events)[-1]:
                    await self._happen(event, last)
                return await self._ended(last)

    def _plan(self) -> Plan:
        policy = self._case.policy
        requesters = [event["by"] for event in self._events if event["ev"] == "request" and "by" in event]
        return Plan(
            str(self._root),
            self._api.url,
            list(policy["approvers"]),
            self._call.get("agent", "agent:alpha"),
            requesters[0] if requesters else "",
            policy.get("timeout_s", 900),
            policy.get("quorum", policy.get("approvers_required", 1)),
        )

    async def _happen(self, event: Mapping[str, Any], life: Life | Doomed) -> None:
        await life.move(event["t"])
        match event["ev"]:
            case "request" | "request_again_same_args":
                call_id = await life.request(self._call["tool"], self._call["args"])
                self._asked.append((call_id, await self._api.message(call_id)))
            case "approve" | "deny" as verb:
                await self._press(self._asked[-1][1], verb.replace("approve", "allow").title(), event)
            case "replay_callback_of_first":
                presser = next(one for one in self._events if one["ev"] in ("approve", "deny"))
                await self._press(self._asked[0][1], "Allow", presser)
            case "telegram_update":
                await self._api.update(event["update"])
            case "mutate_args":
                self._mutate(event["args"])
            case word if word in _WAITS:
                await self._settle(word)
            case word if isinstance(life, Life):
                self._change_world(word, event, life)
            case _:
                raise Skipped

    def _change_world(self, word: str, event: Mapping[str, Any], life: Life) -> None:
        if word.startswith("policy") and "deny" in json.dumps(event):
            life.chat.gate.judge = Judge(load_policy({"rules": [{"pattern": "*", "action": "deny"}]}))
        elif word.startswith(("clock", "wall_clock")) and (jumps := _numbers(event)):
            life.clock.set(life.clock.now() + jumps[0])
        else:
            raise Skipped

    async def _press(self, message: Message, label: str, event: Mapping[str, Any]) -> None:
        who = {"user_id": user_id(event["by"]), "name": event.get("display_name", "somebody")}
        await self._api.notice(await self._api.press(message, label, **who))

    def _mutate(self, args: Mapping[str, Any]) -> None:
        """The stored pending call, behind the gate's back."""
        call_id = self._asked[-1][0]
        with closing(sqlite3.connect(self._db)) as connection, connection:
            (text,) = connection.execute(
                "SELECT question FROM pending_requests WHERE call_id = ?", (call_id,)
            ).fetchone()
            question = {**json.loads(text), "args": args}
            connection.execute(
                "UPDATE pending_requests SET question = ?, args = ? WHERE call_id = ?",
                (json.dumps(question), json.dumps(args), call_id),
            )

    async def _settle(self, word: str) -> None:
        """A moment in which the gate notices what there is to notice; `executed` says that it must be done."""
        if word == "executed":
            await until(lambda: self._status(self._asked[-1][0]) == "success")
        await asyncio.sleep(0.05)

    async def _ended(self, life: Life) -> str:
        """What became of the last request: what is open still gets no answer any more."""
        call_id = self._asked[-1][0]
        if await life.chat.is_open(call_id):
            life.clock.advance(2 * self._case.policy.get("timeout_s", 900))
        await until(lambda: self._status(call_id))
        await soon(life.chat.gate.result(call_id))
        executions = sum(self._status(asked) == "success" for asked, _ in self._asked)
        if executions != self._case.check.get("executions", executions):
            raise CheckFailed(f"executed {executions} times")
        self._check_effect(executions)
        return _ENDS.get(self._status(call_id), "error")

    def _check_effect(self, executions: int) -> None:
        """The file itself, where the call writes one, says what was asked, or is not there."""
        if self._call["tool"] != "fs.write":
            return
        file = Path(self._call["args"]["path"])
        found = file.read_text() if file.exists() else None
        if found != (self._call["args"]["content"] if executions else None):
            raise CheckFailed(f"{file.name} holds {found!r}")

    def _status(self, call_id: str) -> str:
        with closing(sqlite3.connect(f"file:{self._db}?mode=ro", uri=True)) as connection:
            row = connection.execute(
                "SELECT status FROM entries WHERE call_id = ? AND kind = 'settled'", (call_id,)
            ).fetchone()
        return str(row[0]) if row else ""


def _numbers(event: Mapping[str, Any]) -> list[float]:
    return [value for key, value in event.items() if key != "t" and isinstance(value, int | float)]


def _lives(events: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    lives: list[list[Mapping[str, Any]]] = [[]]
    for event in events:
        if event["ev"] in _KILLS:
            lives.append([])
        else:
            lives[-1].append(event)
    return lives

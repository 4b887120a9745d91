"""Notifications about questions whose process is gone: they say so, until somebody holds the call again."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

from agent_gate.model.call import STDIO_DOOR, CallRequest
from agent_gate.simulated_home import Running
from tests.gates import ASK_ALL, HandClock, a_gate, agent, sender, soon, until
from tests.phones import AtHome, at_home, home_config
from tests.scenarios.test_unattended_questions import leave, only_question

NOBODY = (
    "The process that asked is gone: nobody is there to perform it. A yes helps only if"
    " bot makes the same call again before 2026-03-04T12:15Z; else it expires."
)
SERVER = "The process that asked is gone. If you allow it, this server performs it."


def a_call(*, wait: bool = True) -> CallRequest:
    return CallRequest(agent("bot"), "mail.send", {"text": "hi"}, request_id="mcp-1", wait=wait, door=STDIO_DOOR)


async def says(people: AtHome, call_id: str, line: str, *, said: bool = True) -> None:
    await until(lambda: [line in one.message for one in people.about(call_id)] == [said])


async def test_a_phone_says_that_the_process_has_gone_and_takes_it_back_when_the_call_is_held_again(
    tmp_path: Path, running: Running, clock: HandClock
) -> None:
    """No server knows the agent; its own process goes, and a new one makes the same call again."""
    acts: list[str] = []
    nobody = replace(home_config(running), agents=())
    async with AsyncExitStack() as server:
        async with a_gate(tmp_path, ASK_ALL, sender(acts), clock=clock) as holder:
            await holder.submit(a_call(wait=False))
            call_id = (await only_question(holder)).call_id
            people = await server.enter_async_context(at_home(tmp_path, running, clock=clock, config=nobody))
            first = await people.notification(call_id)
            assert "is gone" not in first.message
        await says(people, call_id, NOBODY)
        [replaced] = people.about(call_id)
        assert (replaced.tag, replaced.actions) == (first.tag, first.actions)
        async with a_gate(tmp_path, ASK_ALL, sender(acts), clock=clock) as again:
            made = asyncio.create_task(again.submit(a_call()))
            await says(people, call_id, "is gone", said=False)
            people.press(people.about(call_id)[0], "Allow")
            outcome = await soon(made)
        assert (outcome.ok, outcome.call_id, acts) == (True, call_id, ["hi"])


async def test_a_new_notification_says_that_its_process_is_gone_and_that_the_server_performs_it(
    tmp_path: Path, running: Running, clock: HandClock, acts: list[str]
) -> None:
    leave(tmp_path, "mail.send", {"text": "hi"})
    async with at_home(tmp_path, running, sender(acts), clock=clock) as people:
        call_id = (await only_question(people.gate)).call_id
        shown = await people.notification(call_id)
        assert SERVER in shown.message
        people.press(shown, "Allow")
        await until(lambda: acts)
        await people.cleared(call_id)
    assert acts == ["hi"]

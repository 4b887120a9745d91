"""Questions whose process is gone: whoever answers is told so, and a server goes on where it would do the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_gate import Gate
from agent_gate.gate.approvals import Approvals
from agent_gate.gate.mailbox import Mailbox
from agent_gate.model.approval import Question
from agent_gate.model.call import STDIO_DOOR, Agent, CallRequest
from agent_gate.model.outcome import Status
from tests.gates import ANNA, ASK_ALL, HandClock, a_gate, agent, code_of, pending, run_elsewhere, sender, soon
from tests.scenarios.test_http_api import a_house

BOT = agent("bot")
LEAVES = """
    from agent_gate.model.call import STDIO_DOOR, CallRequest
    async def main():
        async with a_gate(directory, POLICY, sender([], SECRET), working_dir=directory / "client") as gate:
            request = CallRequest(agent("bot"), TOOL, ARGS, request_id="mcp-1", wait=False, door=STDIO_DOOR)
            await gate.submit(request)
            os._exit(0)
"""
FILES = {"rules": [{"pattern": "*", "action": "ask"}], "tools": {"fs.write": {"allow_paths": ["/**"]}}}


def leave(directory: Path, tool: str, args: dict[str, Any], policy: Any = ASK_ALL, secret: str = "") -> None:
    """What a client's own process held when the client went."""
    (directory / "client").mkdir()
    said = {"POLICY": repr(policy), "TOOL": repr(tool), "ARGS": repr(args), "SECRET": secret}
    program = LEAVES
    for name, value in said.items():
        program = program.replace(name, value)
    run_elsewhere(directory, program.replace("[], )", "[])"))


def approvals_of(gate: Gate, *agents: Agent) -> tuple[Approvals, Mailbox]:
    mailbox = Mailbox(gate, {one.id: one for one in agents})
    return Approvals(gate, mailbox), mailbox


async def only_question(gate: Gate) -> Question:
    [question] = await gate.ledger.questions()
    return question


async def test_a_question_says_that_nobody_is_there_to_perform_it_and_what_would_happen(tmp_path: Path) -> None:
    leave(tmp_path, "mail.send", {"text": "hello"})
    acts, clock = list[str](), HandClock()
    async with a_gate(tmp_path, ASK_ALL, sender(acts), clock=clock) as gate:
        approvals, _ = approvals_of(gate)
        asked = await only_question(gate)
        opened = await approvals.question(asked.call_id)
        assert opened is not None
        assert opened.unattended == (
            "The process that asked is gone: nobody is there to perform it. A yes helps only if"
            " bot makes the same call again before 2026-03-04T12:15Z; else it expires."
        )
        said = await approvals.answer(asked.call_id, approve=True, by=ANNA, nonce=asked.nonce)
        assert (said, acts) == (opened.unattended, [])
        again = await gate.submit(CallRequest(BOT, "mail.send", {"text": "hello"}, request_id="mcp-1", door=STDIO_DOOR))
        assert (again.ok, again.call_id, acts) == (True, asked.call_id, ["hello"])


async def test_a_yes_to_what_nobody_performs_expires_as_was_said(tmp_path: Path) -> None:
    leave(tmp_path, "mail.send", {"text": "hello"})
    clock = HandClock()
    async with a_gate(tmp_path, ASK_ALL, sender([]), clock=clock) as gate:
        asked = await only_question(gate)
        assert "else it expires" in await approvals_of(gate)[0].answer(asked.call_id, approve=True, by=ANNA)
    clock.advance(1_000)
    async with a_gate(tmp_path, ASK_ALL, sender([]), clock=clock) as gate:
        outcome = await gate.result(asked.call_id)
    assert outcome is not None
    assert (outcome.status, code_of(outcome)) == (Status.EXPIRED, 1016)


async def test_a_server_that_would_do_the_same_performs_it_and_the_outcome_waits(tmp_path: Path) -> None:
    leave(tmp_path, "mail.send", {"text": "hello"})
    acts: list[str] = []
    async with a_gate(tmp_path, ASK_ALL, sender(acts)) as gate:
        approvals, mailbox = approvals_of(gate, BOT)
        asked = await only_question(gate)
        opened = await approvals.question(asked.call_id)
        assert opened is not None
        assert opened.unattended == "The process that asked is gone. If you allow it, this server performs it."
        assert acts == []
        await approvals.answer(asked.call_id, approve=True, by=ANNA, nonce=asked.nonce)
        outcome = await soon(gate.result(asked.call_id))
        assert outcome is not None
        assert (outcome.ok, acts) == (True, ["hello"])
        assert [one.call_id for one in await mailbox.results(BOT)] == [asked.call_id]


async def test_a_no_is_a_no_and_nothing_is_taken_over_for_it(tmp_path: Path) -> None:
    leave(tmp_path, "mail.send", {"text": "hello"})
    acts: list[str] = []
    async with a_gate(tmp_path, ASK_ALL, sender(acts)) as gate:
        approvals, _ = approvals_of(gate, BOT)
        asked = await only_question(gate)
        assert await approvals.answer(asked.call_id, approve=False, by=ANNA) == ""
    assert acts == []


@pytest.mark.parametrize("policy", [{"rules": [{"pattern": "*", "action": "deny"}]}])
async def test_a_server_whose_policy_denies_it_denies_it(tmp_path: Path, policy: Any) -> None:
    leave(tmp_path, "mail.send", {"text": "hello"})
    acts: list[str] = []
    async with a_gate(tmp_path, policy, sender(acts)) as gate:
        asked = await only_question(gate)
        await approvals_of(gate, BOT)[0].answer(asked.call_id, approve=True, by=ANNA)
        outcome = await soon(gate.result(asked.call_id))
    assert outcome is not None
    assert (outcome.status, acts) == (Status.DENIED, [])


async def test_a_server_that_stands_elsewhere_leaves_the_call_alone(tmp_path: Path) -> None:
    """A relative path leads to another file there: what was shown is not what it would do."""
    leave(tmp_path, "fs.write", {"path": "note.txt", "content": "x"}, FILES)
    (tmp_path / "server").mkdir()
    async with a_gate(tmp_path, FILES, working_dir=tmp_path / "server") as gate:
        approvals, _ = approvals_of(gate, BOT)
        asked = await only_question(gate)
        assert "nobody is there" in await approvals.answer(asked.call_id, approve=True, by=ANNA)
        assert await gate.result(asked.call_id) is None
    async with a_gate(tmp_path, FILES, working_dir=tmp_path / "client") as gate:
        assert "this server performs it" in await approvals_of(gate, BOT)[0].unattended(asked)
    assert not (tmp_path / "server/note.txt").exists()
    assert not (tmp_path / "client/note.txt").exists()


async def test_a_call_with_secrets_or_of_an_unknown_tool_is_left_to_its_agent(tmp_path: Path) -> None:
    leave(tmp_path, "mail.send", {"text": "hello"}, secret="secret=('text',)")
    for tools in ([sender([], secret=("text",))], []):
        async with a_gate(tmp_path, ASK_ALL, *tools) as gate:
            approvals, _ = approvals_of(gate, BOT)
            assert "nobody is there" in await approvals.unattended(await only_question(gate))


async def test_a_question_whose_process_is_there_says_nothing_of_the_kind(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ASK_ALL, sender([])) as holding, a_gate(tmp_path, ASK_ALL, sender([])) as other:
        question = await pending(holding, "mail.send", {"text": "x"}, agent=BOT)
        for gate in (holding, other):
            assert await approvals_of(gate, BOT)[0].unattended(question) == ""


async def test_who_answers_at_a_server_is_told_and_the_server_performs_it(tmp_path: Path) -> None:
    leave(tmp_path, "mail.send", {"text": "hello"})
    acts, told = list[str](), "The process that asked is gone. If you allow it, this server performs it."
    async with a_house(tmp_path, ASK_ALL, sender(acts)) as house:
        [question] = (await house.anna.get("/pending"))["pending"]
        assert question["unattended"] == told
        answered = await house.anna.post(f"/pending/{question['call_id']}/approve", {})
        assert answered["unattended"] == told
        outcome = await soon(house.gate.result(question["call_id"]))
        assert outcome is not None
        assert (outcome.ok, acts) == (True, ["hello"])

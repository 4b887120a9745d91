"""Looking back from the console: timeline, calls, runs, states; trying a policy; grants, the switch and health."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent_gate import load_plan, run_plan
from agent_gate.doors.bounds import DoorBounds
from agent_gate.history.readings import Readings
from agent_gate.ledger.sqlite.storage import SqliteStorage
from agent_gate.model.call import CallRequest
from agent_gate.model.errors import Problem
from agent_gate.model.outcome import Outcome
from agent_gate.model.tool import Json
from tests.gates import ALLOW_ALL, ANNA, ASK_ALL, HandClock, counter, entries, outcome_of, reader, sender, until
from tests.scenarios.visiting import Visitor, a_visitor, another, asked
from tests.servers import BOB_TOKEN, CAROL_TOKEN

UNDO_ASKS = {"rules": [{"pattern": "gate.revert*", "action": "ask"}], "defaults": [{"pattern": "*", "action": "allow"}]}


async def called(visitor: Visitor, tool: str, args: dict[str, Json] | None = None, agent: str = "bot") -> Outcome:
    return await visitor.context.gate.submit(CallRequest(visitor.context.identities.agents[agent], tool, args or {}))


async def test_the_timeline_is_filtered_by_everything_that_it_shows(tmp_path: Path) -> None:
    policy = {"rules": [{"pattern": "mail.*", "action": "deny"}, {"pattern": "*", "action": "allow"}]}
    clock = HandClock()
    async with a_visitor(tmp_path, policy, sender([]), reader([]), clock=clock) as visitor:
        await called(visitor, "note.read", {"text": "long ago"})
        clock.advance(7_200)
        await called(visitor, "note.read", {"text": "Apples"}, "clerk")
        await called(visitor, "mail.send", {"text": "pears"})
        await visitor.sign_in()
        for query, wanted in (
            ("", {"long ago", "Apples", "pears"}),
            ("?agent=clerk", {"Apples"}),
            ("?agent=cl*", {"Apples"}),
            ("?tool=mail.*", {"pears"}),
            ("?status=denied", {"pears"}),
            ("?project=default&since=1h", {"Apples", "pears"}),
            ("?text=aPPles", {"Apples"}),
            ("?text=long+ago&tool=note.read", {"long ago"}),
        ):
            page = await visitor.see(f"/console/timeline{query}")
            assert {text for text in ("long ago", "Apples", "pears") if f"({text})" in page.text} == wanted, query
        assert "Nothing matches" in (await visitor.see("/console/timeline?text=nobody")).text


@pytest.mark.parametrize("place", ["/console", "/console/timeline", "/console/runs", "/console/health"])
async def test_a_ledger_that_is_gone_is_told_on_a_page_with_the_way_out(tmp_path: Path, place: str) -> None:
    async with a_visitor(tmp_path) as visitor:
        visitor.context.gate.ledger.storage.path.unlink()
        page = await visitor.see(place, 503)
    assert "That was not done" in page.text
    assert "is gone" in page.text
    assert "agent-gate init --force" in page.text


@pytest.mark.parametrize("query", ["?since=soon", "?status=fine", "?before=x", "?before=default:99999999999999999999"])
async def test_a_filter_that_is_none_is_told_and_nothing_breaks(tmp_path: Path, query: str) -> None:
    async with a_visitor(tmp_path) as visitor:
        page = await visitor.see(f"/console/timeline{query}", 400)
    assert "bad_arguments" in page.text


async def test_the_timeline_goes_on_where_the_page_ends(tmp_path: Path) -> None:
    async with a_visitor(tmp_path, ALLOW_ALL, reader([])) as visitor:
        for number in range(120):
            await called(visitor, "note.read", {"text": f"n{number:03}"})
        seen, path = [], "/console/timeline?tool=note.read"
        while path:
            page = await visitor.see(path)
            seen.append([f"n{n:03}" for n in range(119, -1, -1) if f"n{n:03}" in page.text])
            path = next((a["href"] for tag, a in page.elements if tag == "a" and a.get("rel") == "next"), "")
    assert [len(shown) for shown in seen] == [50, 50, 20]
    assert [text for shown in seen for text in shown] == [f"n{n:03}" for n in range(119, -1, -1)]


async def test_a_search_that_takes_too_long_is_broken_off(tmp_path: Path) -> None:
    async with a_visitor(tmp_path, ALLOW_ALL, reader([]), bounds=DoorBounds(console_search_s=-1)) as visitor:
        visitor.context.readings = Readings(SqliteStorage(tmp_path / "gate.db", steps_between_looks=1))
        await called(visitor, "note.read")
        page = await visitor.see("/console/timeline?text=x", 400)
    assert "the search took longer than" in page.text


async def test_a_call_s_page_tells_its_way_its_change_and_its_place_in_the_chain(tmp_path: Path) -> None:
    async with a_visitor(tmp_path, ASK_ALL, counter()) as visitor:
        question = await asked(visitor.context, "counter.add", {"n": 2})
        waiting = await visitor.see(f"/console/calls/{question.call_id}")
        assert "waits for an answer" in waiting.text
        await visitor.do(await visitor.see(), "/answer", verb="allow", note="fine")
        await outcome_of(visitor.context.gate, question)
        page = await visitor.see(f"/console/calls/{question.call_id}")
        [settled] = entries(visitor.context.gate, "settled")
    told = " ".join(page.text.split())
    for text in (
        "bot called counter.add", "admit done: agent bot", "bind done: 1 signature",
        "decide done: ask; judged again after the answer rules",
        "hold done: approved by anna, “fine”", "perform done: performed", "settle done: success: now 2",
        "state version 0 → 1", "/n added", "after: 2", "chain holds", settled["hash"].hex()[:12], "default 3 settled",
    ):  # fmt: skip
        assert text in told, text


@pytest.mark.parametrize(
    ("policy", "args", "stages"),
    [
        ({"rules": [{"pattern": "*", "action": "deny"}]}, {"text": "x"}, ["decide stopped: deny", "perform skipped"]),
        (ALLOW_ALL, {"unknown": 1}, ["bind stopped", "decide skipped", "perform skipped: not reached"]),
        (ALLOW_ALL, {"text": "x"}, ["hold skipped: nobody had to be asked", "settle done: success"]),
    ],
)
async def test_a_call_s_page_shows_where_it_ended(tmp_path: Path, policy: Any, args: Any, stages: list[str]) -> None:
    async with a_visitor(tmp_path, policy, sender([])) as visitor:
        outcome = await called(visitor, "mail.send", args)
        told = " ".join((await visitor.see(f"/console/calls/{outcome.call_id}")).text.split())
    for stage in stages:
        assert stage in told, told


async def test_a_call_s_page_tells_of_grants_and_of_questions_that_nobody_answered(tmp_path: Path) -> None:
    clock = HandClock()
    async with a_visitor(tmp_path, ASK_ALL, sender([]), clock=clock, approval_timeout_s=60) as visitor:
        question = await asked(visitor.context, "mail.send", {"text": "x"})
        await visitor.do(await visitor.see(), "/answer", verb="grant")
        await outcome_of(visitor.context.gate, question)
        granted = await called(visitor, "mail.send", {"text": "x"})
        told = " ".join((await visitor.see(f"/console/calls/{granted.call_id}")).text.split())
        assert "hold done: covered by a grant of anna" in told
        late = await asked(visitor.context, "mail.send", {"text": "y"})
        clock.advance(61)
        await outcome_of(visitor.context.gate, late)
        told = " ".join((await visitor.see(f"/console/calls/{late.call_id}")).text.split())
        assert "hold stopped: expired" in told
        assert "perform skipped: not performed" in told or "perform skipped: not reached" in told
        assert "settle stopped: expired" in told


async def test_a_changed_entry_shows_on_the_call_s_page_and_in_the_verification(tmp_path: Path) -> None:
    async with a_visitor(tmp_path, ALLOW_ALL, sender([])) as visitor:
        outcome = await called(visitor, "mail.send", {"text": "before"})
        health = await visitor.see("/console/health")
        assert "verified" in (await visitor.do(health, "/verify")).text
        with closing(sqlite3.connect(visitor.context.gate.ledger.storage.path)) as connection, connection:
            connection.execute(
                "UPDATE entries SET body = replace(body, 'before', 'behind') WHERE call_id = ?", (outcome.call_id,)
            )
        page = await visitor.see(f"/console/calls/{outcome.call_id}")
        assert "chain is broken" in page.text
        health = await visitor.do(health, "/verify")
        assert "broken" in health.text
        assert "the body is not the one that was hashed" in health.text


async def test_undoing_is_a_call_of_the_approver(tmp_path: Path) -> None:
    async with a_visitor(tmp_path, ALLOW_ALL, counter()) as visitor:
        outcome = await called(visitor, "counter.add", {"n": 5})
        page = await visitor.do(await visitor.see(f"/console/calls/{outcome.call_id}"), "/undo")
        assert "Undone." in page.text
        assert (await visitor.context.gate.ledger.state("default")).document == {}
        [revert] = [entry for entry in entries(visitor.context.gate, "settled") if entry["tool"] == "gate.revert"]
        assert revert["agent_id"] == "approver:anna"
        state = await visitor.see("/console/state/default")
        assert "state version 2" in state.text


async def test_an_undoing_that_asks_cannot_be_answered_by_who_wants_it(tmp_path: Path) -> None:
    async with a_visitor(tmp_path, UNDO_ASKS, counter()) as visitor:
        outcome = await called(visitor, "counter.add", {"n": 5})
        page = await visitor.do(await visitor.see(f"/console/calls/{outcome.call_id}"), "/undo")
        assert "Another person must agree: the question is in the inbox." in page.text
        inbox = await visitor.see()
        assert "approver:anna wants to call gate.revert" in inbox.text
        assert "`anna` may not approve a call of its own" in inbox.text
        assert "before: 5" in inbox.text
        [opened] = await visitor.context.approvals.questions()
        async with another(visitor.context, visitor.app, CAROL_TOKEN) as carol:
            await carol.do(await carol.see(), "/answer", verb="allow")
        assert (await outcome_of(visitor.context.gate, opened.question)).ok
        assert (await visitor.context.gate.ledger.state("default")).document == {}


async def test_an_undoing_that_is_denied_says_why(tmp_path: Path) -> None:
    async with a_visitor(tmp_path, ALLOW_ALL, counter(), token=BOB_TOKEN) as visitor:
        outcome = await called(visitor, "counter.add", {"n": 5})
        page = await visitor.do(await visitor.see(f"/console/calls/{outcome.call_id}"), "/undo")
        assert "role_denied" in page.text
        assert (await visitor.context.gate.ledger.state("default")).document == {"n": 5}


async def test_what_changed_nothing_offers_no_undo(tmp_path: Path) -> None:
    async with a_visitor(tmp_path, ALLOW_ALL, reader([])) as visitor:
        outcome = await called(visitor, "note.read")
        assert not (await visitor.see(f"/console/calls/{outcome.call_id}")).has_form("/undo")


async def test_states_are_compared_and_brought_back(tmp_path: Path) -> None:
    async with a_visitor(tmp_path, ALLOW_ALL, counter()) as visitor:
        for number in (1, 10, 100):
            await called(visitor, "counter.add", {"n": number})
        assert "version 3" in (await visitor.see("/console/state")).text
        page = await visitor.see("/console/state/default")
        assert "From version 2 to 3" in page.text
        assert not page.has_form("/revert")
        page = await visitor.see("/console/state/default?from=0&to=2")
        assert "after: 11" in page.text
        page = await visitor.do(page, "/revert")
        assert "Reverted." in page.text
        assert (await visitor.context.gate.ledger.state("default")).document == {"n": 11}
        await visitor.see("/console/state/default?to=99", 400)
        await visitor.see("/console/state/default?to=-1", 400)
        await visitor.see("/console/state/nowhere", 403)


async def test_runs_have_a_page_and_a_report_that_runs_nothing(tmp_path: Path) -> None:
    steps = [{"tool": "note.read", "args": {"text": "<script>"}}, {"tool": "no.such", "args": {}}]
    async with a_visitor(tmp_path, ALLOW_ALL, reader([])) as visitor:
        assert "No run yet" in (await visitor.see("/console/runs")).text
        plan = load_plan({"version": "1.0", "name": "morning", "steps": steps[:1]})
        result = await run_plan(visitor.context.gate, plan)
        listed = await visitor.see("/console/runs")
        assert result.run_id in listed.text
        assert "morning" in listed.text
        page = await visitor.see(f"/console/runs/{result.run_id}")
        assert "morning" in page.text
        assert "note.read(<script>)" in page.text
        answer = await visitor.client.get(f"/console/runs/{result.run_id}/report")
        assert "style-src 'sha256-" in answer.headers["content-security-policy"]
        assert "<script" not in answer.text
        await visitor.see("/console/runs/nowhere", 404)


async def test_a_call_is_tried_against_the_policy_and_every_layer_speaks(tmp_path: Path) -> None:
    policy = {
        "rules": [{"pattern": "mail.send(secret*", "action": "deny", "description": "secrets stay"}],
        "approvals": [{"min_cost": 1, "approver_role": "admin", "approvers_required": 2}],
    }
    acts: list[str] = []
    async with a_visitor(tmp_path, policy, sender(acts)) as visitor:
        page = await visitor.see("/console/check")
        before = entries(visitor.context.gate)
        denied = await visitor.do(page, "/check", agent="bot", tool="mail.send", args='{"text": "secret plan"}')
        told = " ".join(denied.text.split())
        assert "deny" in told
        assert "mail.send(secret plan)" in told
        assert "secrets stay" in told
        for layer in ("rules", "roles", "approvals"):
            assert layer in told
        ask = await visitor.do(page, "/check", agent="bot", tool="mail.send", args='{"text": "x"}', mode="interactive")
        assert "2 approvers with role admin must agree" in " ".join(ask.text.split())
        unknown = await visitor.do(page, "/check", agent="bot", tool="no.such", args="")
        assert "unknown_tool" in unknown.text
        for wrong in ({"args": "[1]"}, {"args": "{"}, {"agent": "nobody-knows"}):
            answer = await visitor.send(page, "/check", **{"agent": "bot", "tool": "mail.send", "args": "{}", **wrong})
            assert answer.status_code == 400
        assert (entries(visitor.context.gate), acts) == (before, [])


async def test_the_switch_asks_first_then_denies_everything_until_it_is_turned_back(tmp_path: Path) -> None:
    async with a_visitor(tmp_path, ALLOW_ALL, sender([])) as visitor:
        page = await visitor.see("/console/switch")
        assert "Pause the gate?" in page.text
        assert (await called(visitor, "mail.send")).ok
        page = await visitor.do(page, "/pause", reason="the bot is confused")
        assert "Paused: every call is denied until somebody resumes." in page.text
        assert not (await called(visitor, "mail.send")).ok
        assert "The gate is paused" in (await visitor.see("/console/timeline")).text
        again = await visitor.client.post("/console/switch/pause", data=page.form("/resume").fields)
        assert "It was paused already." in (await visitor.see(again.headers["location"])).text
        page = await visitor.do(page, "/resume")
        assert "Resumed" in page.text
        assert (await called(visitor, "mail.send")).ok
        told = [(e["body"]["action"], e["body"]["by"]) for e in entries(visitor.context.gate, "project")]
        assert told == [("pause", "anna"), ("resume", "anna")]


async def test_a_grant_that_is_gone_cannot_be_revoked(tmp_path: Path) -> None:
    async with a_visitor(tmp_path) as visitor:
        csrf = (await visitor.see()).form("/sign-out").fields
        answer = await visitor.client.post("/console/grants/nothing/revoke", data=csrf)
        assert "there is no grant `nothing` in force" in (await visitor.see(answer.headers["location"])).text


async def test_health_tells_how_the_gate_is(tmp_path: Path) -> None:
    async with a_visitor(tmp_path, ALLOW_ALL, sender([])) as visitor:
        await called(visitor, "mail.send")
        told = " ".join((await visitor.see("/console/health")).text.split())
        for text in (
            "State open",
            "Open questions 0",
            "mail.send write medium 1",
            "anna approver, admin",
            "owned by carol",
        ):
            assert text in told
        for token in ("token-of", visitor.cookie()):
            assert token not in told


async def test_of_ten_thousand_questions_no_more_is_read_than_is_shown(tmp_path: Path) -> None:
    async with a_visitor(tmp_path, ASK_ALL, sender([])) as visitor:
        first = await asked(visitor.context, "mail.send", {"text": "first"})
        with closing(sqlite3.connect(visitor.context.gate.ledger.storage.path)) as connection, connection:
            columns = [row[1] for row in connection.execute("PRAGMA table_info(pending_requests)")]
            wanted = ", ".join("? || (1000000 + n)" if name == "call_id" else name for name in columns)
            connection.execute(
                "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 10000)"
                f" INSERT INTO pending_requests SELECT {wanted} FROM pending_requests, numbers WHERE call_id = ?",
                ("x", first.call_id),
            )
            connection.execute("UPDATE pending_requests SET question = 'unread' WHERE call_id > 'x1000200'")
        page = await visitor.see()
    assert "10001 open" in page.text
    assert "9901 more wait behind these." in page.text


async def test_health_tells_what_happened_at_the_gate_itself(tmp_path: Path) -> None:
    async with a_visitor(tmp_path, ASK_ALL, sender([])) as visitor:
        question = await asked(visitor.context, "mail.send", {"text": "x"})
        await visitor.do(await visitor.see(), "/answer", verb="allow", nonce="forged")
        await visitor.context.approvals.pause(ANNA, "<b>tea</b>")
        visitor.context.gate.count_refusal("stranger", Problem(6002, "no token"))
        await until(lambda: any("refused" in entry["body"] for entry in entries(visitor.context.gate, "door")))
        told = " ".join((await visitor.see("/console/health")).text.split())
    assert "stranger was turned away: not_authenticated, once" in told
    assert "pause by anna: <b>tea</b>" in told
    assert f"the answer `approve` of anna to call {question.call_id} did not count" in told
    assert "came into force" in told

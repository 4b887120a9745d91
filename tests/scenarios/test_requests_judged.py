"""Requests of others' traffic: judged by the gate, performed elsewhere, asked about without anybody waiting."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from agent_gate import Agent, Gate
from agent_gate.chain.builtin.bound_headers import BoundHeaders
from agent_gate.chain.builtin.gate import GatePolicy, GateSettings
from agent_gate.chain.context import RequestContext
from agent_gate.chain.executor import Executor
from agent_gate.chain.headers import Headers
from agent_gate.chain.prepared import PolicyRef
from agent_gate.chain.registry import Registry
from agent_gate.config import load_policy
from agent_gate.gate.approvals import Approvals
from agent_gate.gate.mailbox import Mailbox
from agent_gate.gate.traffic import Traffic
from agent_gate.history.policy_try import try_policy
from agent_gate.history.verify import verify
from agent_gate.ledger.sqlite.reader import open_reader
from agent_gate.model.approval import GrantTerms
from agent_gate.model.codec import canonical
from agent_gate.model.outcome import Status
from agent_gate.policy.judge import Judge
from agent_gate.ports.judging import HttpRequest, RequestAllowed, RequestDenied, RequestHeld
from agent_gate.services.requests import wish_of
from agent_gate.toolkit.threads import BlockingPool
from tests.gates import (
    ALLOW_ALL,
    ANNA,
    ASK_ALL,
    BOB,
    HandClock,
    People,
    a_gate,
    agent,
    entries,
    kinds_of,
    projects,
    rows,
    run_elsewhere,
    sender,
    soon,
    until,
)
from tests.scenarios.visiting import a_visitor
from tests.unit.chain.builtin.asking import FakeJudge

pytestmark = pytest.mark.anyio

BOT = agent("bot", owner="carol")
AGENTS = {"bot": BOT, "clerk": agent("clerk", projects=("home",))}
URL = "https://shop.example/orders"


def request(**fields: Any) -> HttpRequest:
    made = HttpRequest("bot", "", "POST", URL, (), b"")
    return replace(made, **fields)


@asynccontextmanager
async def a_traffic(
    directory: Path, policy: Any = ASK_ALL, *, agents: dict[str, Agent] | None = None, **options: Any
) -> AsyncIterator[tuple[Gate, Traffic]]:
    async with a_gate(directory, policy, **options) as gate, Traffic(gate, agents or AGENTS) as traffic:
        yield gate, traffic


async def held(traffic: Traffic, asked: HttpRequest | None = None) -> str:
    judgement = await traffic.judge_request(asked or request())
    assert isinstance(judgement, RequestHeld), judgement
    return judgement.call_id


async def code_of(traffic: Traffic, asked: HttpRequest | None = None) -> int:
    judgement = await traffic.judge_request(asked or request())
    assert isinstance(judgement, RequestDenied), judgement
    return judgement.problem.code


async def approve(gate: Gate, call_id: str, **fields: Any) -> None:
    await gate.answer(call_id, approve=True, by=fields.pop("by", ANNA), **fields)


def a_chain(traffic: Traffic) -> tuple[Executor, list[PolicyRef]]:
    registry = Registry()
    registry.register(GatePolicy(traffic))
    return Executor(registry, BlockingPool(2)), [PolicyRef("gate", {"agent_id": "bot"})]


def verified(gate: Gate) -> None:
    report = verify(rows(gate, "PRAGMA database_list")[0]["file"])
    assert report.ok, report


async def test_an_allowed_request_passes_and_is_written_down_as_judged(tmp_path: Path) -> None:
    policy = {"rules": [{"pattern": "http.request(POST https://shop.example/*)", "action": "allow"}]}
    async with a_traffic(tmp_path, policy) as (gate, traffic):
        judgement = await traffic.judge_request(request(query_params=(("q", "1"),), body=b'{"n": 1}'))
        assert judgement == RequestAllowed()
        entry = entries(gate, "judged")[0]
        assert (entry["project"], entry["agent_id"], entry["tool"], entry["status"]) == (
            "default",
            "bot",
            "http.request",
            "success",
        )
        assert entry["signature"] == f"http.request(POST {URL})"
        assert entry["body"]["args"] == {"method": "POST", "url": URL, "query": [["q", "1"]], "body": '{"n": 1}'}
        outcome = await gate.result(entry["call_id"])
        assert outcome is not None
        assert (outcome.status, outcome.message) == (Status.SUCCESS, "let through; it is performed elsewhere")
        verified(gate)


@pytest.mark.parametrize("body", [b"x" * 9_000, b"\xff\x00"], ids=["long", "no text"])
async def test_a_body_that_nobody_can_read_is_told_by_size_and_hash(tmp_path: Path, body: bytes) -> None:
    async with a_traffic(tmp_path, ALLOW_ALL) as (gate, traffic):
        await traffic.judge_request(request(body=body))
        told = entries(gate, "judged")[0]["body"]["args"]["body"]
        assert told == {"bytes": len(body), "sha256": sha256(body).hexdigest()}


async def test_a_denied_request_is_written_down_with_the_rule(tmp_path: Path) -> None:
    policy = {"rules": [{"pattern": "http.request(POST *)", "action": "deny", "description": "no orders"}]}
    async with a_traffic(tmp_path, policy) as (gate, traffic):
        assert await code_of(traffic) == 1001
        entry = entries(gate, "judged")[0]
        assert (entry["status"], entry["body"]["decision"], entry["body"]["error"]["code"]) == ("denied", "deny", 1001)
        verified(gate)


async def test_an_asked_request_does_not_wait_and_finds_its_question_again(tmp_path: Path) -> None:
    people = People()
    async with a_traffic(tmp_path, people=people) as (gate, traffic):
        first = await traffic.judge_request(request())
        assert first == await traffic.judge_request(request())
        question = await people.question()
        assert first == RequestHeld(question.call_id, 5)
        assert [one.question for one in await Approvals(gate).questions()] == [question]
        assert (question.signatures, question.args["url"]) == ((f"http.request(POST {URL})",), URL)
        assert len(people.asked) == 1


async def test_many_of_the_same_at_once_put_one_question(tmp_path: Path) -> None:
    async with a_traffic(tmp_path) as (gate, traffic):
        found = await asyncio.gather(*(traffic.judge_request(request()) for _ in range(20)))
        assert len(set(found)) == 1
        assert len(entries(gate, "held")) == 1


async def test_after_an_approval_one_repeated_request_passes_once(tmp_path: Path) -> None:
    people = People()
    async with a_traffic(tmp_path, people=people) as (gate, traffic):
        call_id = await held(traffic)
        await approve(gate, call_id)
        found = await asyncio.gather(*(traffic.judge_request(request()) for _ in range(10)))
        assert found.count(RequestAllowed()) == 1
        assert {type(one) for one in found} == {RequestAllowed, RequestHeld}
        assert kinds_of(gate, call_id) == ["held", "answered", "judged"]
        assert entries(gate, "judged")[0]["body"]["resolved_by"] == "anna"
        assert await held(traffic) != call_id
        await until(lambda: people.ended == [(call_id, "approved", "anna")])
        verified(gate)


@pytest.mark.parametrize(
    "other",
    [
        request(method="PUT"),
        request(url=f"{URL}/2"),
        request(query_params=(("all", "1"),)),
        request(body=b"other"),
        request(agent_id="clerk"),
        request(target=f"{URL}?"),
        request(headers=(("x-http-method-override", "DELETE"),)),
        request(credentials=(("cookie", "id=7"),)),
    ],
    ids=["method", "url", "query", "body", "agent", "target", "headers", "credentials"],
)
async def test_an_approval_lets_nothing_else_pass(tmp_path: Path, other: HttpRequest) -> None:
    async with a_traffic(tmp_path) as (gate, traffic):
        await projects(gate).create("home")
        call_id = await held(traffic, request(body=b"this"))
        await approve(gate, call_id)
        assert await held(traffic, other) != call_id
        assert await traffic.judge_request(request(body=b"this")) == RequestAllowed()


BYTES = st.text(st.characters(min_codepoint=33, max_codepoint=255, exclude_characters="#\x7f"), max_size=6)
FIELDS = st.lists(
    st.tuples(
        st.sampled_from(["Accept", "cookie", "x-a", "X-HTTP-Method-Override"]), st.sampled_from(["", "1", "1, 1"])
    ),
    max_size=3,
)


@st.composite
def requests(draw: st.DrawFn) -> RequestContext:
    target = "/orders" + draw(st.sampled_from(["", "/%FF", "/%fe"])) + draw(st.sampled_from(["", "?"])) + draw(BYTES)
    assume("?" in target or target.isascii())
    path, mark, query = target.partition("?")
    return RequestContext.create(
        method=draw(st.sampled_from(["POST", "PUT"])),
        authority=draw(st.sampled_from(["shop.example", "shop.example.", "SHOP.example", "shop.example:443"])),
        path=path,
        query_params=parse_qsl(query, keep_blank_values=True, errors="replace"),
        raw_query=query if mark else None,
        headers=draw(FIELDS),
        body=draw(st.sampled_from([b"", b"\xff", b"\xfe", b'{"unseen": true}'])),
    )


@given(requests(), requests())
@example(
    *(RequestContext.create(method="GET", raw_query=f"file={byte}", authority="a.test") for byte in ("%FF", "%FE"))
)
@example(*(RequestContext.create(method="GET", raw_query=f"f={byte}", authority="a.test") for byte in ("\xff", "%FF")))
async def test_two_requests_are_bound_alike_only_where_every_byte_is_the_same(
    one: RequestContext, other: RequestContext
) -> None:
    """Names of headers have no case, and their values an order for each name."""
    asked = FakeJudge()
    for context in (one, other):
        await GatePolicy(asked).execute(GateSettings("bot", BoundHeaders()), context)
    assume(len(asked.asked) == 2)
    bound = [canonical(dict(wish_of(BOT, request).args)) for request in asked.asked]
    same = replace(one, headers=Headers()) == replace(other, headers=Headers()) and one.headers == other.headers
    assert (bound[0] == bound[1]) is same


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"raw_query": "file=%FF"}, {"raw_query": "file=%FE"}),
        ({"raw_query": "file=%FF"}, {"raw_query": "file=\xff"}),
        ({"raw_query": ""}, {"raw_query": None}),
        ({"path": "/%6Frders"}, {"path": "/orders"}),
        ({"authority": "shop.example:443"}, {"authority": "shop.example"}),
        ({"headers": {}}, {"headers": {"X-HTTP-Method-Override": "DELETE"}}),
        ({"headers": {"Cookie": "id=7"}}, {"headers": {"Cookie": "id=8"}}),
        ({"headers": {"Content-Type": "text/plain"}}, {"headers": {"Content-Type": "application/json"}}),
        ({"headers": {"X-Tenant": "a"}}, {"headers": [("X-Tenant", "a"), ("X-Tenant", "b")]}),
        ({"body": b"\xff"}, {"body": b"\xfe"}),
    ],
    ids=str,
)
async def test_what_was_agreed_to_is_what_passes_through_a_chain(
    tmp_path: Path, first: dict[str, Any], second: dict[str, Any]
) -> None:
    line = {"method": "POST", "authority": "shop.example", "path": "/orders"}
    async with a_traffic(tmp_path) as (gate, traffic):
        executor, chain = a_chain(traffic)
        asked = await executor.execute(chain, RequestContext.create(**{**line, **first}))
        assert asked.immediate is not None
        await approve(gate, dict(asked.immediate.headers)["x-agent-gate-call-id"])
        assert not (await executor.execute(chain, RequestContext.create(**{**line, **second}))).passes
        assert (await executor.execute(chain, RequestContext.create(**{**line, **first}))).passes


async def test_what_differs_from_one_attempt_to_the_next_does_not_void_an_approval(tmp_path: Path) -> None:
    async with a_traffic(tmp_path) as (gate, traffic):
        executor, chain = a_chain(traffic)
        contexts = [
            RequestContext.create(
                authority="shop.example", headers={"x-request-id": number, "traceparent": number, "date": number}
            )
            for number in "12"
        ]
        asked = await executor.execute(chain, contexts[0])
        assert asked.immediate is not None
        await approve(gate, dict(asked.immediate.headers)["x-agent-gate-call-id"])
        assert (await executor.execute(chain, contexts[1])).passes


async def test_a_credential_is_bound_and_neither_shown_nor_stored(tmp_path: Path) -> None:
    people = People()
    async with a_traffic(tmp_path, people=people) as (_, traffic):
        executor, chain = a_chain(traffic)
        headers = {"Cookie": "session=hunter2", "Accept": "text/plain", "x-note": "Bearer hunter2hunter2hunter2"}
        await executor.execute(chain, RequestContext.create(authority="shop.example", headers=headers))
        question = await people.question()
        assert question.args["headers"] == {"accept": ["text/plain"], "cookie": ["***"], "x-note": ["***"]}
        assert question.args["credentials"].keys() == {"$secret"}
    assert b"hunter2" not in stored_in(tmp_path)


def stored_in(directory: Path) -> bytes:
    return b"".join(file.read_bytes() for file in directory.rglob("*") if file.is_file())


async def test_nobody_is_asked_about_a_body_that_nobody_is_shown(tmp_path: Path) -> None:
    policy = {"rules": [{"pattern": "http.request(PUT *)", "action": "allow"}, {"pattern": "*", "action": "ask"}]}
    async with a_traffic(tmp_path, policy) as (gate, traffic):
        assert await code_of(traffic, request(body_unseen=True)) == 1001
        assert entries(gate, "held") == []
        assert await traffic.judge_request(request(method="PUT", body_unseen=True)) == RequestAllowed()


async def test_two_gates_on_one_ledger_use_an_approval_once(tmp_path: Path) -> None:
    async with a_traffic(tmp_path) as (one, first), a_traffic(tmp_path) as (_, second):
        call_id = await held(first)
        assert await held(second) == call_id
        await approve(one, call_id)
        found = await asyncio.gather(*(traffic.judge_request(request()) for traffic in (first, second) * 5))
        assert found.count(RequestAllowed()) == 1
        verified(one)


async def test_a_no_is_told_once_and_then_the_cooldown_speaks(tmp_path: Path) -> None:
    clock = HandClock()
    async with a_traffic(tmp_path, {**ASK_ALL, "cooldown_seconds": 60}, clock=clock) as (gate, traffic):
        call_id = await held(traffic)
        await gate.answer(call_id, approve=False, by=ANNA)
        assert [await code_of(traffic), await code_of(traffic)] == [1015, 1022]
        assert kinds_of(gate, call_id) == ["held", "answered", "judged"]
        clock.advance(61)
        assert await held(traffic) != call_id
        verified(gate)


async def test_a_question_that_nobody_answers_ends_with_its_deadline(tmp_path: Path) -> None:
    clock, people = HandClock(), People()
    async with a_traffic(tmp_path, clock=clock, people=people, approval_timeout_s=60) as (gate, traffic):
        call_id = await held(traffic)
        clock.advance(58)
        assert await traffic.judge_request(request()) == RequestHeld(call_id, 2)
        clock.advance(3)
        await until(lambda: kinds_of(gate, call_id) == ["held", "answered", "judged"])
        assert people.ended == [(call_id, "expired", "")]
        outcome = await gate.result(call_id)
        assert outcome is not None
        assert outcome.status is Status.EXPIRED
        assert rows(gate, "SELECT * FROM pending_requests") == []
        assert await held(traffic) != call_id
        verified(gate)


async def test_a_request_that_comes_before_anybody_noticed_the_deadline_is_a_new_question(tmp_path: Path) -> None:
    clock = HandClock()
    async with a_traffic(tmp_path, clock=clock, approval_timeout_s=60) as (gate, traffic):
        call_id = await held(traffic)
        await approve(gate, call_id)
        clock.advance(61)
        assert await held(traffic) != call_id
        verified(gate)


async def test_an_approval_that_is_not_used_ends_with_the_deadline(tmp_path: Path) -> None:
    clock = HandClock()
    async with a_traffic(tmp_path, clock=clock, approval_timeout_s=60) as (gate, traffic):
        call_id = await held(traffic)
        await approve(gate, call_id)
        clock.advance(61)
        await until(lambda: kinds_of(gate, call_id) == ["held", "answered", "judged"])
        assert entries(gate, "judged")[0]["body"]["error"]["code"] == 1016


async def test_a_question_survives_a_restart_with_its_deadline(tmp_path: Path) -> None:
    clock, people = HandClock(), People()
    async with a_traffic(tmp_path, clock=clock) as (gate, traffic):
        call_id = await held(traffic)
    clock.advance(10)
    async with a_traffic(tmp_path, clock=clock, people=people) as (gate, traffic):
        assert await Mailbox(gate).take_over_held(AGENTS) == 0, "it is not performed here"
        question = await people.question()
        assert (question.call_id, question.expires_at) == (call_id, clock.now() - 10 + 900)
        await approve(gate, call_id)
    async with a_traffic(tmp_path, clock=clock) as (gate, traffic):
        assert await traffic.judge_request(request()) == RequestAllowed()
        assert await held(traffic) != call_id
        verified(gate)


@pytest.mark.parametrize("answer", [None, False])
async def test_what_a_dead_server_left_is_settled_when_the_next_one_opens(tmp_path: Path, answer: bool | None) -> None:
    clock = HandClock()
    async with a_traffic(tmp_path, clock=clock, approval_timeout_s=60) as (gate, traffic):
        call_id = await held(traffic)
        if answer is False:
            await gate.answer(call_id, approve=False, by=ANNA)
    clock.advance(61)
    async with a_traffic(tmp_path, clock=clock) as (gate, traffic):
        assert kinds_of(gate, call_id) == ["held", "answered", "settled"]
        assert await held(traffic) != call_id
        verified(gate)


async def test_an_approval_outlives_a_server_that_was_killed_and_is_used_once(tmp_path: Path) -> None:
    run_elsewhere(
        tmp_path,
        """
        from agent_gate.ports.judging import HttpRequest
        from agent_gate.gate.traffic import Traffic

        async def main():
            async with a_gate(directory, ASK_ALL) as gate, Traffic(gate, {"bot": agent("bot")}) as desk:
                held = await desk.judge_request(HttpRequest("bot", "", "POST", "https://shop.example/orders", (), b""))
                await gate.answer(held.call_id, approve=True, by=ANNA)
                os._exit(9)
        """,
    )
    async with a_traffic(tmp_path) as (gate, traffic):
        found = [await traffic.judge_request(request()) for _ in range(2)]
        assert (found[0], type(found[1])) == (RequestAllowed(), RequestHeld)
        verified(gate)


async def test_more_than_one_must_agree_where_the_policy_says_so(tmp_path: Path) -> None:
    policy = {**ASK_ALL, "approvals": [{"min_cost": 1, "approver_role": "operator", "approvers_required": 2}]}
    async with a_traffic(tmp_path, policy) as (gate, traffic):
        call_id = await held(traffic)
        await approve(gate, call_id)
        assert await held(traffic) == call_id
        await approve(gate, call_id, by=BOB)
        assert await traffic.judge_request(request()) == RequestAllowed()
        assert entries(gate, "judged")[0]["body"]["resolved_by"] == "anna, bob"


async def test_a_policy_that_denies_after_the_approval_wins(tmp_path: Path) -> None:
    async with a_traffic(tmp_path) as (gate, traffic):
        call_id = await held(traffic)
        await approve(gate, call_id)
        gate.judge = judge_of({"rules": [{"pattern": "*", "action": "deny"}]})
        assert await code_of(traffic) == 1001
        gate.judge = judge_of(ASK_ALL)
        assert await traffic.judge_request(request()) == RequestAllowed(), "the approval was not used"


async def test_a_policy_that_asks_for_more_voids_the_approval(tmp_path: Path) -> None:
    async with a_traffic(tmp_path) as (gate, traffic):
        call_id = await held(traffic)
        await approve(gate, call_id, by=BOB)
        gate.judge = judge_of({**ASK_ALL, "approvals": [{"min_cost": 1, "approver_role": "admin"}]})
        assert await held(traffic) != call_id
        assert kinds_of(gate, call_id) == ["held", "answered", "judged"]
        verified(gate)


def judge_of(policy: Any) -> Judge:
    return Judge(load_policy(policy))


async def test_a_standing_grant_lets_the_same_request_pass_as_often_as_it_says(tmp_path: Path) -> None:
    async with a_traffic(tmp_path) as (gate, traffic):
        call_id = await held(traffic)
        await approve(gate, call_id, grant=GrantTerms(uses=2))
        found = [await traffic.judge_request(request()) for _ in range(4)]
        assert found[:3] == [RequestAllowed()] * 3, "the approval, and two uses of the grant"
        assert isinstance(found[3], RequestHeld)
        assert await held(traffic, request(body=b"other")) not in (call_id, found[3].call_id)


async def test_limits_count_requests_like_calls_and_a_question_counts_once(tmp_path: Path) -> None:
    policy = {**ASK_ALL, "limits": {"budget": {"daily": 2}}}
    async with a_traffic(tmp_path, policy) as (gate, traffic):
        first, second = await held(traffic), await held(traffic, request(body=b"2"))
        assert await code_of(traffic, request(body=b"3")) == 1013
        assert await held(traffic) == first, "its own reservation is not in its way"
        await approve(gate, first)
        assert await traffic.judge_request(request()) == RequestAllowed()
        await gate.answer(second, approve=False, by=ANNA)
        assert await code_of(traffic, request(body=b"2")) == 1015
        await held(traffic, request(body=b"4"))
        verified(gate)


async def test_an_allowed_request_is_charged(tmp_path: Path) -> None:
    async with a_traffic(tmp_path, {**ALLOW_ALL, "limits": {"rate": {"per_minute": 2}}}) as (_, traffic):
        assert [await traffic.judge_request(request()) for _ in range(2)] == [RequestAllowed()] * 2
        assert await code_of(traffic) == 1012


async def test_the_agents_own_bounds_hold(tmp_path: Path) -> None:
    agents = {"bot": replace(BOT, requests_per_minute=3, max_pending_approvals=1)}
    async with a_traffic(tmp_path, agents=agents) as (_, traffic):
        await held(traffic)
        assert await code_of(traffic, request(body=b"2")) == 1012, "one question at a time"
        await held(traffic)
        assert await code_of(traffic) == 1012, "three a minute"


async def test_pause_and_locks_stop_requests_and_keep_approvals(tmp_path: Path) -> None:
    async with a_traffic(tmp_path) as (gate, traffic):
        call_id = await held(traffic)
        await approve(gate, call_id)
        await Approvals(gate).pause(ANNA)
        assert await code_of(traffic) == 1017
        await Approvals(gate).resume(ANNA)
        await projects(gate).lock("default")
        assert await code_of(traffic) == 1017
        await projects(gate).unlock("default")
        assert await traffic.judge_request(request()) == RequestAllowed()


async def test_a_request_belongs_to_the_first_project_of_its_agent(tmp_path: Path) -> None:
    async with a_traffic(tmp_path, ALLOW_ALL) as (gate, traffic):
        await projects(gate).create("home")
        await traffic.judge_request(request(agent_id="clerk"))
        assert entries(gate, "judged")[0]["project"] == "home"


async def test_an_agent_that_the_configuration_does_not_know_is_refused(tmp_path: Path) -> None:
    async with a_traffic(tmp_path, ALLOW_ALL) as (gate, traffic):
        assert await code_of(traffic, request(agent_id="stranger")) == 6003
        assert entries(gate, "judged") == []


async def test_who_owns_the_agent_may_not_approve_its_requests(tmp_path: Path) -> None:
    carol = replace(ANNA, id="carol")
    async with a_traffic(tmp_path, approvers=(ANNA, carol)) as (gate, traffic):
        call_id = await held(traffic)
        with pytest.raises(Exception, match="may not approve"):
            await approve(gate, call_id, by=carol)


async def test_where_nobody_can_be_asked_an_ask_is_a_deny(tmp_path: Path) -> None:
    async with a_traffic(tmp_path, approvers=()) as (_, traffic):
        assert await code_of(traffic) == 1001


async def test_http_request_is_no_tool_that_agents_could_call(tmp_path: Path) -> None:
    async with a_traffic(tmp_path, ALLOW_ALL) as (gate, _):
        outcome = await gate.call("http.request", {"method": "GET", "url": URL})
        assert outcome.error is not None
        assert outcome.error.code == 2001


async def test_a_caller_that_goes_away_leaves_a_question_that_people_know_of(tmp_path: Path) -> None:
    people = People()
    async with a_traffic(tmp_path, people=people) as (_, traffic):
        asking = asyncio.create_task(traffic.judge_request(request()))
        await asyncio.sleep(0)
        asking.cancel()
        question = await people.question()
        assert await held(traffic) == question.call_id


async def test_a_desk_that_closes_takes_no_more_and_leaves_questions_open(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ASK_ALL) as gate:
        async with Traffic(gate, AGENTS) as traffic:
            call_id = await held(traffic)
        assert await code_of(traffic) == 5001
        assert await gate.ledger.question(call_id) is not None


async def test_recorded_requests_can_be_judged_by_another_policy(tmp_path: Path) -> None:
    async with a_traffic(tmp_path, ALLOW_ALL) as (gate, traffic):
        await traffic.judge_request(request())
        db = rows(gate, "PRAGMA database_list")[0]["file"]
        with closing(open_reader(Path(db))) as reader:
            trial = try_policy(reader, judge_of({"rules": [{"pattern": "http.request(POST *)", "action": "deny"}]}))
        assert (trial.newly_denied, trial.flips[0].signatures) == (1, (f"http.request(POST {URL})",))


async def test_calls_and_requests_are_held_side_by_side(tmp_path: Path) -> None:
    acts: list[str] = []
    async with a_gate(tmp_path, ASK_ALL, sender(acts)) as gate, Traffic(gate, AGENTS) as traffic:
        call = asyncio.create_task(gate.call("mail.send", text="hi"))
        call_id = await held(traffic)
        await until(lambda: len(entries(gate, "held")) == 2)
        for one in await Approvals(gate).questions():
            await approve(gate, one.question.call_id)
        assert (await soon(call)).status is Status.SUCCESS
        assert await traffic.judge_request(request()) == RequestAllowed()
        assert kinds_of(gate, call_id)[-1] == "judged"


async def test_the_console_shows_a_request_while_it_waits_and_afterwards(tmp_path: Path) -> None:
    async with a_visitor(tmp_path, ASK_ALL) as visitor, Traffic(visitor.context.gate, AGENTS) as traffic:
        call_id = await held(traffic, request(body=b"two apples"))
        inbox = await visitor.see("/console")
        assert f"http.request(POST {URL})" in inbox.text
        assert "two apples" in inbox.text
        await visitor.do(inbox, f"{call_id}/answer", verb="allow")
        assert "approved" in (await visitor.see(f"/console/calls/{call_id}")).text
        assert await traffic.judge_request(request(body=b"two apples")) == RequestAllowed()
        page = await visitor.see(f"/console/calls/{call_id}")
        assert "let through; it is performed elsewhere" in page.text
        assert f"http.request(POST {URL})" in (await visitor.see("/console/timeline?tool=http.request")).text


async def test_the_policy_gate_tells_the_caller_when_to_come_again(tmp_path: Path) -> None:
    """Through the executor, as a proxy does it."""
    async with a_traffic(tmp_path) as (gate, traffic):
        executor, chain = a_chain(traffic)
        context = RequestContext.create(method="POST", authority="shop.example", path="/orders", body=b"1")
        first = await executor.execute(chain, context)
        assert not first.passes
        assert first.immediate is not None
        told = dict(first.immediate.headers)
        assert (first.immediate.status, told["retry-after"]) == (403, "5")
        await approve(gate, told["x-agent-gate-call-id"])
        assert (await executor.execute(chain, context)).passes
        assert not (await executor.execute(chain, context)).passes

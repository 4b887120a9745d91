"""Agents over the WebSocket: who they are, what they may say, and that every request gets exactly one answer."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect

from agent_gate import Outcome, tool
from agent_gate.config import RateLimitConfig
from agent_gate.doors.bounds import DoorBounds
from agent_gate.model.bounds import MESSAGE_BYTES_MAX, REQUESTS_IN_FLIGHT_MAX, STRANGERS_MESSAGE_BYTES_MAX
from agent_gate.model.tool import Json
from tests.gates import ASK_ALL, HandClock, People, approve, counter, deny, entries, reader, rows, sender, soon, until
from tests.servers import ANNA_TOKEN, BOT_TOKEN, CLERK_TOKEN, RawAgent, a_config, a_raw_agent, a_server, left_alone

RULES: Any = {
    "rules": [
        {"pattern": "note.read*", "action": "allow"},
        {"pattern": "counter.add*", "action": "allow"},
        {"pattern": "state.*", "action": "allow"},
        {"pattern": "mail.send*", "action": "ask"},
        {"pattern": "bomb.drop*", "action": "deny"},
    ],
    "cooldown_seconds": 0,
}


def call(name: str, request_id: str = "", **args: Json) -> dict[str, Any]:
    """Parameters of a tool_request."""
    return {"tool": name, "args": args} | ({"request_id": request_id} if request_id else {})


async def test_the_first_message_says_who_it_is_and_is_told_how_many_results_wait(tmp_path: Path) -> None:
    async with a_server(tmp_path) as server, a_raw_agent(server, None) as agent:
        assert await agent.ask("auth", token=BOT_TOKEN) == {
            "status": "authenticated",
            "agent_id": "bot",
            "pending": 0,
        }
        assert await agent.ask("auth", token=BOT_TOKEN) == {"status": "authenticated", "agent_id": "bot", "pending": 0}
        assert (await agent.ask("auth", token=CLERK_TOKEN))["code"] == -32005


@pytest.mark.parametrize(
    ("first", "code"),
    [
        ({"jsonrpc": "2.0", "id": 1, "method": "auth", "params": {"token": "wrong"}}, -32005),
        ({"jsonrpc": "2.0", "id": 1, "method": "auth", "params": {"token": ANNA_TOKEN}}, -32005),
        ({"jsonrpc": "2.0", "id": 1, "method": "auth", "params": {"token": ""}}, -32005),
        ({"jsonrpc": "2.0", "id": 1, "method": "auth", "params": {"token": BOT_TOKEN[:-1]}}, -32005),
        ({"jsonrpc": "2.0", "id": 1, "method": "list_tools"}, -32005),
        ({"jsonrpc": "2.0", "id": 1, "method": "auth", "params": {}}, -32602),
        ({"jsonrpc": "2.0", "id": 1, "method": "auth", "params": {"token": 7}}, -32602),
        ("nonsense", -32700),
        ([], -32600),
        (b"\x00", -32600),
    ],
)
async def test_whoever_does_not_say_so_is_told_why_and_let_go(tmp_path: Path, first: Any, code: int) -> None:
    async with a_server(tmp_path) as server, a_raw_agent(server, None) as agent:
        await agent.send(first)
        assert (await agent.receive())["error"]["code"] == code
        assert await agent.closed() == 1008


async def test_refused_tokens_are_counted_in_one_summary(tmp_path: Path) -> None:
    async with a_server(tmp_path) as server:
        for _ in range(3):
            async with a_raw_agent(server, None) as agent:
                assert (await agent.ask("auth", token="wrong-token"))["code"] == -32005
        await server.gate.close()
        refused = [row["body"]["refused"] for row in entries(server.gate, "door")]
        assert sum(item["count"] for summary in refused for item in summary) == 3
        assert {item["why"] for summary in refused for item in summary} == {"not_authenticated"}
        assert "wrong-token" not in json.dumps(refused)


async def test_a_bearer_token_in_the_handshake_is_as_good_as_the_first_message(tmp_path: Path) -> None:
    headers = {"Authorization": f"bearer {BOT_TOKEN}"}
    async with a_server(tmp_path) as server, a_raw_agent(server, None, additional_headers=headers) as agent:
        assert [one["name"] for one in (await agent.ask("list_tools"))["tools"]]
    wrong = {"Authorization": "Bearer wrong"}
    async with a_server(tmp_path) as server, a_raw_agent(server, None, additional_headers=wrong) as agent:
        assert (await agent.receive())["error"]["code"] == -32005
        assert await agent.closed() == 1008


async def test_a_call_is_answered_with_its_outcome(tmp_path: Path) -> None:
    acts: list[str] = []
    async with a_server(tmp_path, RULES, reader(acts)) as server, a_raw_agent(server) as agent:
        outcome = await agent.ask("tool_request", **call("note.read", "r-1", text="x"))
        assert (outcome["status"], outcome["request_id"], outcome["data"]) == ("success", "r-1", {"read": "x"})
        assert acts == ["x"]
        [settled] = entries(server.gate, "settled")
        assert (settled["agent_id"], settled["request_id"]) == ("bot", "r-1")


async def test_how_a_call_ended_is_an_error_of_its_own_kind_with_the_outcome_as_data(tmp_path: Path) -> None:
    people = People()

    @tool("mill.break", effect="read", risk="low", cost=0)
    async def broken() -> None:
        raise ValueError("stones")

    rules = {**RULES, "rules": [*RULES["rules"], {"pattern": "mill.break", "action": "allow"}]}
    async with (
        a_server(tmp_path, rules, sender([]), sender([], "bomb.drop"), broken, people=people) as server,
        a_raw_agent(server) as agent,
    ):
        denied = await agent.ask("tool_request", **call("bomb.drop"))
        assert (denied["code"], denied["data"]["error"]["code"]) == (-32003, 1001)
        assert denied["message"].startswith("policy_denied: ")
        failed = await agent.ask("tool_request", **call("mill.break"))
        assert (failed["code"], failed["data"]["status"]) == (-32004, "error")
        unknown = await agent.ask("tool_request", **call("no.such"))
        assert (unknown["code"], unknown["data"]["error"]["code"]) == (-32004, 2001)
        await agent.begin("tool_request", **call("mail.send"))
        await deny(server.gate, await people.question())
        refused = (await agent.receive())["error"]
        assert (refused["code"], refused["data"]["error"]["code"]) == (-32001, 1015)
        foreign = await agent.ask("tool_request", **call("note.read"), project="other")
        assert (foreign["code"], foreign["data"]["error"]["code"]) == (-32003, 6003)


async def test_a_question_that_nobody_answers_in_time_is_an_error(tmp_path: Path) -> None:
    clock, people = HandClock(), People()
    async with (
        a_server(tmp_path, ASK_ALL, sender([]), people=people, clock=clock) as server,
        a_raw_agent(server) as agent,
    ):
        await agent.begin("tool_request", **call("mail.send"))
        await people.question()
        clock.advance(901)
        expired = (await agent.receive())["error"]
        assert (expired["code"], expired["data"]["status"]) == (-32002, "expired")


async def test_too_many_requests_are_an_error_of_their_own(tmp_path: Path) -> None:
    config = a_config(rate_limit=RateLimitConfig(max_requests_per_minute=2))
    async with a_server(tmp_path, RULES, reader([]), config=config) as server, a_raw_agent(server) as agent:
        answers = [await agent.ask("tool_request", **call("note.read")) for _ in range(3)]
        assert [answer.get("code") for answer in answers] == [None, None, -32006]


async def test_an_agent_that_does_not_wait_is_told_that_a_person_must_agree(tmp_path: Path) -> None:
    async with a_server(tmp_path, ASK_ALL, sender([])) as server, a_raw_agent(server) as agent:
        outcome = await agent.ask("tool_request", **call("mail.send", "r"), wait=False)
        assert outcome["status"] == "pending_approval"
        [asked] = await server.context.approvals.questions()
        assert asked.question.call_id == outcome["call_id"]


async def test_replies_come_as_they_are_reached(tmp_path: Path) -> None:
    people = People()
    async with (
        a_server(tmp_path, RULES, sender([]), reader([]), people=people) as server,
        a_raw_agent(server) as agent,
    ):
        slow = await agent.begin("tool_request", **call("mail.send", text="hi"))
        asked = await people.question()
        quick = await agent.begin("tool_request", **call("note.read"))
        assert (await agent.receive())["id"] == quick
        await approve(server.gate, asked)
        answer = await agent.receive()
        assert (answer["id"], answer["result"]["data"]) == (slow, {"sent": "hi"})


@pytest.mark.parametrize(
    ("message", "code", "id"),
    [
        ("{", -32700, None),
        ('{"jsonrpc":"2.0","id":1,"id":2,"method":"list_tools"}', -32700, None),
        ('{"jsonrpc":"2.0","id":1,"method":"simulate","params":{"tool":"t","args":{"n":NaN}}}', -32700, None),
        (
            '{"jsonrpc":"2.0","id":1,"method":"simulate","params":{"tool":"t","args":{"n":9007199254740993}}}',
            -32700,
            None,
        ),
        ('{"jsonrpc":"2.0","id":1,"method":"simulate","params":{"tool":"\\ud800"}}', -32700, None),
        ('{"jsonrpc":"2.0","id":1,"method":"simulate","params":' + "[" * 70 + "]" * 70 + "}", -32700, None),
        ('{"jsonrpc":"2.0","id":1,"method":"list_tools"} {}', -32700, None),
        ("[]", -32600, None),
        ('[{"jsonrpc":"2.0","id":1,"method":"list_tools"}]', -32600, None),
        ("1", -32600, None),
        ('{"jsonrpc":"1.0","id":3,"method":"list_tools"}', -32600, 3),
        ('{"jsonrpc":"2.0","id":3}', -32600, 3),
        ('{"jsonrpc":"2.0","id":3,"method":7}', -32600, 3),
        ('{"jsonrpc":"2.0","id":3,"result":{}}', -32600, 3),
        ('{"jsonrpc":"2.0","id":1.5,"method":"list_tools"}', -32600, None),
        ('{"jsonrpc":"2.0","id":true,"method":"list_tools"}', -32600, None),
        ('{"jsonrpc":"2.0","id":[],"method":"list_tools"}', -32600, None),
        ('{"jsonrpc":"2.0","id":"' + "x" * 201 + '","method":"list_tools"}', -32600, None),
        ('{"jsonrpc":"2.0","id":3,"method":"approve"}', -32601, 3),
        ('{"jsonrpc":"2.0","id":"a","method":"rpc.discover"}', -32601, "a"),
        ('{"jsonrpc":"2.0","id":3,"method":"list_tools","params":[]}', -32602, 3),
        ('{"jsonrpc":"2.0","id":3,"method":"list_tools","params":{"x":1}}', -32602, 3),
        ('{"jsonrpc":"2.0","id":null,"method":"tool_request","params":{}}', -32602, None),
        ('{"jsonrpc":"2.0","id":3,"method":"tool_request","params":{"tool":"note.read","args":[]}}', -32602, 3),
        ('{"jsonrpc":"2.0","id":3,"method":"tool_request","params":{"tool":["note.read"]}}', -32602, 3),
        ('{"jsonrpc":"2.0","id":3,"method":"tool_request","params":{"tool":"t","confirmed":1}}', -32602, 3),
        ('{"jsonrpc":"2.0","id":3,"method":"tool_request","params":{"tool":"t","mode":"wild"}}', -32602, 3),
        ('{"jsonrpc":"2.0","id":3,"method":"ack_results","params":{"ids":[1]}}', -32602, 3),
        ('{"jsonrpc":"2.0","id":3,"method":"revert","params":{}}', -32602, 3),
        ('{"jsonrpc":"2.0","id":3,"method":"execute_plan","params":{"plan":{}}}', -32602, 3),
    ],
)
async def test_a_message_that_is_no_request_has_its_code_and_the_connection_goes_on(
    tmp_path: Path, message: str, code: int, id: Any
) -> None:
    async with a_server(tmp_path, RULES, reader([])) as server, a_raw_agent(server) as agent:
        await agent.send(message)
        answer = await agent.receive()
        assert (answer["error"]["code"], answer["id"]) == (code, id)
        assert (await agent.ask("tool_request", **call("note.read")))["status"] == "success"


async def test_a_notification_is_done_and_not_answered(tmp_path: Path) -> None:
    acts: list[str] = []
    async with a_server(tmp_path, RULES, reader(acts)) as server, a_raw_agent(server) as agent:
        await agent.send({"jsonrpc": "2.0", "method": "tool_request", "params": call("note.read", text="quiet")})
        await agent.send({"jsonrpc": "2.0", "method": "no_such_method"})
        await until(lambda: acts == ["quiet"])
        assert "tools" in await agent.ask("list_tools")


async def test_equal_ids_in_flight_get_an_answer_each(tmp_path: Path) -> None:
    async with a_server(tmp_path, RULES, reader([])) as server, a_raw_agent(server) as agent:
        message = {"jsonrpc": "2.0", "id": "same", "method": "tool_request", "params": call("note.read")}
        await agent.send(message)
        await agent.send(message)
        answers = [await agent.receive(), await agent.receive()]
        assert [answer["id"] for answer in answers] == ["same", "same"]
        assert len({answer["result"]["call_id"] for answer in answers}) == 2


async def test_frames_beyond_the_bound_and_binary_frames_end_the_connection(tmp_path: Path) -> None:
    async with a_server(tmp_path, RULES, reader([])) as server:
        async with a_raw_agent(server) as agent:
            await agent.send('"' + "x" * MESSAGE_BYTES_MAX + '"')
            assert await agent.closed() == 1009
        async with a_raw_agent(server) as agent:
            await agent.send(b'{"jsonrpc":"2.0","id":1,"method":"list_tools"}')
            assert await agent.closed() == 1003
        async with a_raw_agent(server) as agent:
            big = await agent.ask("tool_request", **call("note.read", text="x" * (MESSAGE_BYTES_MAX - 500)))
            assert big["status"] == "success"


async def test_a_stranger_has_little_room(tmp_path: Path) -> None:
    async with a_server(tmp_path) as server, a_raw_agent(server, None) as agent:
        await agent.send('"' + "x" * STRANGERS_MESSAGE_BYTES_MAX + '"')
        assert await agent.closed() == 1009


async def test_requests_beyond_the_bound_of_a_connection_are_refused_and_others_go_on(tmp_path: Path) -> None:
    people = People()
    async with (
        a_server(tmp_path, ASK_ALL, sender([]), people=people) as server,
        a_raw_agent(server) as agent,
        a_raw_agent(server) as other,
    ):
        for number in range(REQUESTS_IN_FLIGHT_MAX):
            await agent.begin("tool_request", **call("mail.send", text=str(number)))
        await people.question(REQUESTS_IN_FLIGHT_MAX)
        refused = await agent.ask("tool_request", **call("mail.send", "one-more"))
        assert (refused["code"], refused["data"]["request_id"]) == (-32006, "one-more")
        assert (await other.ask("tool_request", **call("mail.send"), wait=False))["status"] == "pending_approval"


async def test_many_agents_are_served_at_once_and_one_may_come_several_times(tmp_path: Path) -> None:
    async with a_server(tmp_path, RULES, counter()) as server:

        async def work(token: str) -> None:
            async with a_raw_agent(server, token) as agent:
                for _ in range(5):
                    assert (await agent.ask("tool_request", **call("counter.add", n=1)))["status"] == "success"

        await soon(asyncio.gather(*(work(token) for token in (BOT_TOKEN, CLERK_TOKEN) * 5)))
        assert (await server.gate.ledger.state("default")).document == {"n": 50}


async def test_silent_sockets_are_let_go_in_time_and_keep_nobody_out(tmp_path: Path) -> None:
    async with a_server(tmp_path, RULES, reader([]), bounds=DoorBounds(handshakes_max=5)) as server:
        silent = [await connect(server.ws_url, proxy=None) for _ in range(12)]
        async with a_raw_agent(server) as agent:
            assert (await agent.ask("tool_request", **call("note.read")))["status"] == "success"
        crowded_out = [RawAgent(one) for one in silent[:7]]
        assert [await one.closed() for one in crowded_out] == [1008] * 7
        for one in silent:
            await one.close()
    bounds = DoorBounds(handshake_timeout_s=0.05)
    async with a_server(tmp_path, bounds=bounds) as server, a_raw_agent(server, None) as agent:
        assert await agent.closed() == 1008


async def test_agents_see_the_tools_that_they_could_use(tmp_path: Path) -> None:
    async with (
        a_server(tmp_path, RULES, reader([]), sender([], "door.open", risk="high")) as server,
        a_raw_agent(server) as agent,
    ):
        tools = {one["name"]: one for one in (await agent.ask("list_tools"))["tools"]}
        assert tools["note.read"]["effect"] == "read"
        assert tools["note.read"]["risk"] == "low"
        assert tools["note.read"]["input_schema"]["properties"] == {"text": {"type": "string"}}
        assert "description" in tools["note.read"]
        assert "door.open" not in tools  # for admins
        assert "fs.read" not in tools  # not set up


async def test_simulating_changes_nothing(tmp_path: Path) -> None:
    acts: list[str] = []
    async with (
        a_server(tmp_path, RULES, counter(), reader(acts), sender(acts, "bomb.drop")) as server,
        a_raw_agent(server) as agent,
    ):
        outcome = await agent.ask("simulate", **call("counter.add", n=2))
        assert (outcome["status"], outcome["simulated"], outcome["state_version"]) == ("success", True, 1)
        assert (await agent.ask("simulate", **call("note.read")))["simulated"]
        assert (await agent.ask("simulate", **call("bomb.drop")))["data"]["simulated"]
        assert acts == []
        assert entries(server.gate, "settled") == []


async def test_a_simulation_has_no_ids_as_over_http(tmp_path: Path) -> None:
    async with a_server(tmp_path, RULES, counter(), sender([], "bomb.drop")) as server, a_raw_agent(server) as agent:
        told = [
            await agent.ask("simulate", **call("counter.add", n=2)),
            (await agent.ask("simulate", **call("bomb.drop")))["data"],
            (await agent.ask("simulate", **call("nobody.knows")))["data"],
        ]
    for outcome in told:
        assert outcome["simulated"]
        assert not {"call_id", "request_id"} & outcome.keys()
        assert Outcome.from_json(outcome).to_json() == outcome


async def test_state_is_read_and_reverted_by_calls_like_any_other(tmp_path: Path) -> None:
    async with a_server(tmp_path, RULES, counter()) as server, a_raw_agent(server) as agent:
        first = await agent.ask("tool_request", **call("counter.add", n=1))
        second = await agent.ask("tool_request", **call("counter.add", n=2))
        assert (await agent.ask("get_state"))["data"] == {"n": 3}
        assert (await agent.ask("get_state", project="other"))["code"] == -32003
        reverted = await agent.ask("revert", snapshot_id=first["snapshot_id"], request_id="back")
        assert reverted["status"] == "success"
        assert (await agent.ask("get_state"))["data"] == {"n": 1}
        undone = await agent.ask("revert", call_id=second["call_id"])
        assert undone["data"]["signatures"][0] == f"gate.revert({second['call_id']})"
        used = rows(server.gate, "SELECT DISTINCT tool FROM entries WHERE kind = 'settled'")
        assert {row["tool"] for row in used} >= {"state.get", "state.revert", "gate.revert"}


async def test_a_plan_runs_step_by_step_within_the_limit_of_the_agents_mode(tmp_path: Path) -> None:
    step = {"tool": "counter.add", "args": {"n": 1}}
    async with (
        a_server(tmp_path, {**RULES, "limits": {"steps": {"assisted": 2}}}, counter()) as server,
        a_raw_agent(server) as agent,
    ):
        run = await agent.ask("execute_plan", plan={"version": "1.0", "steps": [step, step]})
        assert (run["status"], [one["status"] for one in run["outcomes"]]) == ("completed", ["success"] * 2)
        refused = await agent.ask("execute_plan", plan={"version": "1.0", "steps": [step] * 3})
        assert (refused["code"], refused["data"]["error"]["code"]) == (-32003, 1018)
        wrong = await agent.ask("execute_plan", plan={"version": "1.0", "steps": [{"tool": "no.such"}]})
        assert (wrong["code"], wrong["data"]["error"]["code"]) == (-32602, 3003)
        assert (await agent.ask("get_state"))["data"] == {"n": 2}


async def test_an_agent_can_take_back_what_nobody_has_answered(tmp_path: Path) -> None:
    people = People()
    async with a_server(tmp_path, ASK_ALL, sender([]), people=people) as server, a_raw_agent(server) as agent:
        waiting = await agent.begin("tool_request", **call("mail.send", "r"))
        await people.question()
        cancelling = await agent.begin("cancel", request_id="r")
        answers = {answer["id"]: answer for answer in [await agent.receive(), await agent.receive()]}
        assert answers[cancelling]["result"]["error"]["code"] == 1020
        assert answers[waiting]["error"]["data"]["error"]["code"] == 1020
        assert (await agent.ask("cancel", request_id="nobody's"))["code"] == -32004


async def test_an_outcome_reached_while_the_agent_was_away_waits_for_it_and_is_performed_once(tmp_path: Path) -> None:
    acts: list[str] = []
    people = People()
    async with a_server(tmp_path, ASK_ALL, sender(acts), people=people) as server:
        async with a_raw_agent(server) as agent:
            await agent.begin("tool_request", **call("mail.send", "r", text="once"))
            asked = await people.question()
            agent.connection.transport.abort()
            await left_alone(server)
        await approve(server.gate, asked)
        await soon(server.gate.result(asked.call_id))
        async with a_raw_agent(server, None) as agent:
            assert (await agent.ask("auth", token=BOT_TOKEN))["pending"] == 1
            [outcome] = (await agent.ask("get_pending_results"))["results"]
            assert (outcome["request_id"], outcome["data"]) == ("r", {"sent": "once"})
            assert await agent.ask("tool_request", **call("mail.send", "r", text="once")) == outcome
            assert await agent.ask("ack_results", ids=["r"]) == {"acknowledged": 1}
            assert await agent.ask("get_pending_results") == {"results": []}
        async with a_raw_agent(server, CLERK_TOKEN) as clerk:
            assert (await clerk.ask("get_pending_results"))["results"] == []
        assert acts == ["once"]


async def test_an_agent_that_comes_back_before_the_answer_joins_its_call(tmp_path: Path) -> None:
    acts: list[str] = []
    people = People()
    async with a_server(tmp_path, ASK_ALL, sender(acts), people=people) as server:
        async with a_raw_agent(server) as agent:
            await agent.begin("tool_request", **call("mail.send", "r", text="once"))
            asked = await people.question()
            agent.connection.transport.abort()
            await left_alone(server)
        async with a_raw_agent(server) as agent:
            await agent.begin("tool_request", **call("mail.send", "r", text="once"))
            await until(lambda: [progress.is_left_alone for progress in server.gate._under_way] == [False])
            await approve(server.gate, asked)
            assert (await agent.receive())["result"]["data"] == {"sent": "once"}
            assert (await agent.ask("get_pending_results"))["results"] == []
        assert (acts, len(people.asked)) == (["once"], 1)


async def test_a_plan_goes_on_when_its_agent_has_gone(tmp_path: Path) -> None:
    people = People()
    steps = [{"tool": "mail.send"}, {"tool": "counter.add", "args": {"n": 1}}]
    async with a_server(tmp_path, RULES, sender([]), counter(), people=people) as server:
        async with a_raw_agent(server) as agent:
            await agent.begin("execute_plan", plan={"version": "1.0", "steps": steps})
            asked = await people.question()
        await approve(server.gate, asked)
        await until(lambda: [row["status"] for row in entries(server.gate, "run")] == ["running", "completed"])


async def test_everybody_is_told_when_the_server_ends_and_gets_what_is_still_to_come(tmp_path: Path) -> None:
    people = People()
    async with a_server(tmp_path, RULES, sender([]), reader([]), people=people) as server:
        async with a_raw_agent(server) as agent, a_raw_agent(server) as idle:
            waiting = await agent.begin("tool_request", **call("mail.send", "r"))
            await people.question()
            server.context.closing.set()
            told = await agent.receive()
            assert (told["method"], "id" in told) == ("closing", False)
            refused = await agent.ask("tool_request", **call("note.read", "late"))
            assert (refused["code"], refused["data"]["error"]["code"]) == (-32004, 2006)
            assert refused["data"]["request_id"] == "late"
            await server.gate.close()
            answer = await agent.receive()
            assert (answer["id"], answer["result"]["status"]) == (waiting, "pending_approval")
            assert (await agent.closed(), await idle.closed()) == (1012, 1012)
        async with a_raw_agent(server, None) as late:
            await late.begin("auth", token=BOT_TOKEN)
            assert await late.closed() == 1012


async def test_an_agent_has_so_many_connections_and_no_more(tmp_path: Path) -> None:
    async with a_server(tmp_path, bounds=DoorBounds(agent_connections_max=2)) as server, a_raw_agent(server):
        async with a_raw_agent(server), a_raw_agent(server, CLERK_TOKEN), a_raw_agent(server) as one_too_many:
            assert await one_too_many.closed() == 1013
        async with a_raw_agent(server) as again:
            assert "tools" in await again.ask("list_tools")


async def test_plans_that_go_on_are_bounded(tmp_path: Path) -> None:
    people, plan = People(), {"version": "1.0", "steps": [{"tool": "mail.send"}]}
    bounds = DoorBounds(plans_under_way_max=1)
    async with (
        a_server(tmp_path, ASK_ALL, sender([]), people=people, bounds=bounds) as server,
        a_raw_agent(server) as agent,
    ):
        running = await agent.begin("execute_plan", plan=plan)
        asked = await people.question()
        assert (await agent.ask("execute_plan", plan=plan))["code"] == -32006
        await approve(server.gate, asked)
        answer = await agent.receive()
        assert (answer["id"], answer["result"]["status"]) == (running, "completed")


async def test_answers_that_nobody_reads_do_not_pile_up(tmp_path: Path) -> None:
    async with a_server(tmp_path, RULES, reader([]), bounds=DoorBounds(unsent_bytes_max=1_000)) as server:
        async with a_raw_agent(server) as agent:
            await agent.begin("tool_request", **call("note.read", "r", text="x" * 2_000))
            assert await agent.closed() == 1013
        async with a_raw_agent(server, None) as agent:
            await until(lambda: rows(server.gate, "SELECT 1 FROM waiting_results"))
            assert (await agent.ask("auth", token=BOT_TOKEN))["pending"] == 1


async def test_a_defect_of_a_method_is_an_answer_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_server(tmp_path) as server, a_raw_agent(server) as agent:
        monkeypatch.setattr(server.context.mailbox, "results", lambda _: 1 / 0)
        assert await agent.ask("get_pending_results") == {
            "code": -32603,
            "message": "the gate itself failed: ZeroDivisionError",
        }
        assert "tools" in await agent.ask("list_tools")

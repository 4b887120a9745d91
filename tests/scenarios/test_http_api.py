"""The HTTP API: agents call, people answer, and neither can do what is the other's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Origin

from agent_gate.doors.api import OPERATIONS
from agent_gate.doors.api.operation import Who
from agent_gate.doors.bounds import DoorBounds
from agent_gate.history.readings import Readings
from agent_gate.ledger.sqlite.storage import SqliteStorage
from agent_gate.model.bounds import MESSAGE_BYTES_MAX
from tests.gates import ALLOW_ALL, ASK_ALL, PATIENCE_S, HandClock, counter, entries, reader, sender, until
from tests.servers import (
    ANNA_TOKEN,
    BOB_TOKEN,
    BOT_TOKEN,
    CAROL_TOKEN,
    CLERK_TOKEN,
    Served,
    a_config,
    a_server,
)

T = TypeVar("T")
Json = dict[str, Any]


class Client:
    """Somebody with a token, or without one."""

    def __init__(self, served: Served, token: str | None) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.http = httpx2.AsyncClient(base_url=f"{served.url}/api/v1", headers=headers, timeout=PATIENCE_S)

    async def get(self, path: str, status: int = 200, /, **query: Any) -> Json:
        return self._answer(await self.http.get(path, params=query), status)

    async def post(self, path: str, body: Any = None, status: int = 200) -> Json:
        return self._answer(await self.http.post(path, json=body), status)

    async def delete(self, path: str, status: int = 200) -> Json:
        return self._answer(await self.http.delete(path), status)

    async def call(self, tool: str, args: Json | None = None, status: int = 200, **fields: Any) -> Json:
        return await self.post("/calls", {"tool": tool, "args": args or {}, **fields}, status)

    async def hold(self, text: str = "hello", **fields: Any) -> str:
        """A call that waits for a person; its id."""
        outcome = await self.call("mail.send", {"text": text}, 202, wait=False, **fields)
        assert outcome["status"] == "pending_approval"
        call_id: str = outcome["call_id"]
        return call_id

    @staticmethod
    def _answer(response: httpx2.Response, status: int) -> Json:
        assert response.status_code == status, response.text
        assert response.headers["content-type"] == "application/json"
        value: Json = response.json()
        return value


class House:
    """A server and everybody who may come to it."""

    def __init__(self, served: Served) -> None:
        self.served, self.gate = served, served.gate
        self.bot, self.clerk = Client(served, BOT_TOKEN), Client(served, CLERK_TOKEN)
        self.anna, self.bob, self.carol = (Client(served, token) for token in (ANNA_TOKEN, BOB_TOKEN, CAROL_TOKEN))
        self.nobody = Client(served, None)


@asynccontextmanager
async def a_house(directory: Path, policy: Any = ALLOW_ALL, *tools: Any, **options: Any) -> AsyncIterator[House]:
    async with a_server(directory, policy, *tools, **options) as served:
        house = House(served)
        try:
            yield house
        finally:
            for client in (house.bot, house.clerk, house.anna, house.bob, house.carol, house.nobody):
                await client.http.aclose()


def code(answer: Json) -> int:
    found: int = answer["error"]["code"]
    return found


async def test_a_call_answers_with_its_outcome(tmp_path: Path) -> None:
    acts: list[str] = []
    async with a_house(tmp_path, ALLOW_ALL, sender(acts)) as house:
        outcome = await house.bot.call("mail.send", {"text": "hello"}, request_id="r-1")
        assert (outcome["status"], outcome["data"], outcome["request_id"]) == ("success", {"sent": "hello"}, "r-1")
        assert await house.bot.call("mail.send", {"text": "hello"}, request_id="r-1") == outcome
        assert await house.bot.get("/calls/r-1") == outcome
        assert await house.bot.get(f"/calls/{outcome['call_id']}") == outcome
    assert acts == ["hello"]


async def test_a_call_that_is_denied_was_taken_all_the_same(tmp_path: Path) -> None:
    policy = {"rules": [{"pattern": "mail.*", "action": "deny"}]}
    async with a_house(tmp_path, policy, sender([])) as house:
        denied = await house.bot.call("mail.send")
        unknown = await house.bot.call("no.such.tool")
    assert (denied["status"], code(denied)) == ("denied", 1001)
    assert (unknown["status"], code(unknown)) == ("error", 2001)


async def test_a_call_waits_for_a_person_and_tells_how_it_ended(tmp_path: Path) -> None:
    async with a_house(tmp_path, ASK_ALL, sender([])) as house:
        calling = asyncio.create_task(house.bot.call("mail.send", {"text": "hello"}))
        question = await _question(house)
        answer = await house.anna.post(f"/pending/{question['call_id']}/approve", {"nonce": question["nonce"]})
        outcome = await calling
    assert answer == {"call_id": question["call_id"], "approved": True, "open": False}
    assert (outcome["status"], outcome["call_id"]) == ("success", question["call_id"])


async def eventually(ask: Callable[[], Awaitable[T]]) -> T:
    """The first answer that is not empty."""
    async with asyncio.timeout(PATIENCE_S):
        while not (found := await ask()):  # noqa: ASYNC110 -- what is waited for is at the other end of a socket
            await asyncio.sleep(0.005)
    return found


async def _question(house: House) -> Json:
    async def asked() -> list[Json]:
        found: list[Json] = (await house.anna.get("/pending"))["pending"]
        return found

    return (await eventually(asked))[0]


async def test_a_client_that_goes_ends_only_the_waiting(tmp_path: Path) -> None:
    acts: list[str] = []
    async with a_house(tmp_path, ASK_ALL, sender(acts)) as house:
        calling = asyncio.create_task(house.bot.call("mail.send", {"text": "hello"}, request_id="r-1"))
        question = await _question(house)
        calling.cancel()
        await asyncio.wait({calling})
        await house.bot.http.aclose()
        away = Client(house.served, BOT_TOKEN)
        under_way = house.gate._under_way
        await until(lambda: all(progress.is_left_alone for progress in under_way))
        await house.anna.post(f"/pending/{question['call_id']}/approve")
        await until(lambda: acts == ["hello"])

        async def kept() -> list[Json]:
            found: list[Json] = (await away.get("/results"))["results"]
            return found

        results = await eventually(kept)
        assert [(one["request_id"], one["status"]) for one in results] == [("r-1", "success")]
        assert await away.post("/results/ack", {"ids": ["r-1"]}) == {"acknowledged": 1}
        assert await away.get("/results") == {"results": []}
        await away.http.aclose()


async def test_a_call_without_waiting_can_be_looked_at_until_it_has_ended(tmp_path: Path) -> None:
    async with a_house(tmp_path, ASK_ALL, sender([])) as house:
        call_id = await house.bot.hold(request_id="a/b c")
        assert (await house.bot.get("/calls/a%2Fb%20c", 202))["call_id"] == call_id
        await house.anna.post(f"/pending/{call_id}/deny", {"note": "not today"})

        async def ended() -> bool:
            return (await house.bot.http.get(f"/calls/{call_id}")).status_code == 200

        await eventually(ended)
        outcome = await house.bot.get(f"/calls/{call_id}")
    assert (outcome["status"], code(outcome)) == ("denied", 1015)


async def test_a_waiting_call_can_be_withdrawn_by_its_agent_alone(tmp_path: Path) -> None:
    async with a_house(tmp_path, ASK_ALL, sender([])) as house:
        call_id = await house.bot.hold(request_id="r-1")
        assert code(await house.clerk.post(f"/calls/{call_id}/withdraw", status=404)) == 2002
        assert code(await house.clerk.post("/calls/r-1/withdraw", status=404)) == 2002
        outcome = await house.bot.post("/calls/r-1/withdraw")
        assert (outcome["call_id"], code(outcome)) == (call_id, 1020)
        assert await house.bot.post(f"/calls/{call_id}/withdraw") == outcome
        nameless = await house.bot.hold()
        assert "request id" in (await house.bot.post(f"/calls/{nameless}/withdraw", status=409))["error"]["detail"]


async def test_an_agent_sees_nothing_of_another(tmp_path: Path) -> None:
    async with a_house(tmp_path, ASK_ALL, sender([])) as house:
        call_id = await house.bot.hold(request_id="r-1")
        assert code(await house.clerk.get(f"/calls/{call_id}", 404)) == 2002
        assert code(await house.clerk.get("/calls/r-1", 404)) == 2002
        assert await house.clerk.get("/pending") == {"pending": [], "total": 0}
        assert {line["agent_id"] for line in (await house.clerk.get("/entries"))["entries"]} == {"clerk"}
        assert await house.clerk.get("/runs") == {"runs": []}
        assert code(await house.clerk.get("/entries", 403, agent="bot")) == 6003
        assert code(await house.clerk.get("/state", 403, project="home")) == 6003
        own = (await house.bot.get("/pending"))["pending"]
    assert [one["call_id"] for one in own] == [call_id]
    assert "nonce" not in own[0]
    assert "bound_hash" not in own[0]


async def test_a_run_is_its_agents_own(tmp_path: Path) -> None:
    plan = {"name": "count", "steps": [{"tool": "counter.add", "args": {"n": 2}}]}
    async with a_house(tmp_path, ALLOW_ALL, counter()) as house:
        result = await house.bot.post("/plans", {"plan": plan})
        run_id = result["run_id"]
        assert (result["status"], [one["status"] for one in result["outcomes"]]) == ("completed", ["success"])
        assert [run["run_id"] for run in (await house.bot.get("/runs"))["runs"]] == [run_id]
        shown = await house.anna.get(f"/runs/{run_id}")
        assert (shown["run"]["status"], shown["steps"][0]["tool_name"]) == ("completed", "counter.add")
        assert "allow" in shown["run"]["policy_json"]
        assert (await house.bot.get(f"/runs/{run_id}"))["run"]["policy_json"] is None
        assert "policy_json" not in (await house.bot.get("/runs"))["runs"][0]
        report = await house.bot.get(f"/runs/{run_id}/report")
        assert (report["summary"]["statuses"], report["policy"]) == ({"success": 1}, None)
        for path in (f"/runs/{run_id}", f"/runs/{run_id}/report", f"/runs/{run_id[:10]}"):
            assert code(await house.clerk.get(path, 404)) == 4001
        assert await house.clerk.get("/runs") == {"runs": []}
        assert len((await house.anna.get("/runs", limit=1))["runs"]) == 1


async def test_a_plan_that_is_none_is_told_and_nothing_begins(tmp_path: Path) -> None:
    unknown = {"steps": [{"tool": "no.such.tool"}]}
    async with a_house(tmp_path) as house:
        result = await house.bot.post("/plans", {"plan": unknown})
        assert (result["status"], result["outcomes"], code(result)) == ("failed", [], 3003)
        assert code(await house.bot.post("/plans", {"plan": {"steps": []}}, 400)) == 2002
        assert await house.bot.get("/runs") == {"runs": []}


async def test_a_plan_goes_on_when_its_client_has_gone(tmp_path: Path) -> None:
    plan = {"steps": [{"tool": "mail.send", "args": {"text": text}} for text in ("one", "two")]}
    acts: list[str] = []
    async with a_house(tmp_path, ASK_ALL, sender(acts)) as house:
        running = asyncio.create_task(house.bot.post("/plans", {"plan": plan}))
        for text in ("one", "two"):
            question = await _question(house)
            assert question["args"] == {"text": text}
            running.cancel()
            await house.anna.post(f"/pending/{question['call_id']}/approve")
            await until(lambda: acts and acts[-1] == text)  # noqa: B023
        await until(lambda: entries(house.gate, "run")[-1]["status"] == "completed")


async def test_a_server_that_ends_breaks_a_plan_off(tmp_path: Path) -> None:
    plan = {"steps": [{"tool": "mail.send", "args": {"text": "one"}}]}
    async with a_house(tmp_path, ASK_ALL, sender([])) as house:
        running = asyncio.create_task(house.bot.post("/plans", {"plan": plan}, 503))
        await _question(house)
        house.served.context.closing.set()
        assert code(await running) == 5001
        assert entries(house.gate, "run")[-1]["status"] == "failed"


async def test_a_server_that_ends_takes_nothing_more_in(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        house.served.context.closing.set()
        assert code(await house.bot.call("state.get", {"path": ""}, 503)) == 5001


async def test_simulating_does_and_records_nothing(tmp_path: Path) -> None:
    acts: list[str] = []
    async with a_house(tmp_path, ASK_ALL, sender(acts)) as house:
        outcome = await house.bot.post("/simulate", {"tool": "mail.send", "args": {"text": "hello"}})
        assert (outcome["status"], outcome["simulated"]) == ("pending_approval", True)
        assert "call_id" not in outcome
        plan = {"steps": [{"tool": "mail.send", "args": {"text": "hello"}}]}
        run = await house.bot.post("/plans", {"plan": plan, "simulate": True})
        assert [(one["status"], "call_id" in one) for one in run["outcomes"]] == [("pending_approval", False)]
        assert await house.anna.get("/pending") == {"pending": [], "total": 0}
        assert entries(house.gate, "held", "settled", "judged") == []
    assert acts == []


async def test_tools_are_listed_as_the_policy_declares_them(tmp_path: Path) -> None:
    policy = {**ALLOW_ALL, "declare": {"mail.*": {"risk": "high"}}}
    async with a_house(tmp_path, policy, sender([]), reader([])) as house:
        for_agent, for_person = (await house.bot.get("/tools"))["tools"], (await house.anna.get("/tools"))["tools"]
    assert "note.read" in {tool["name"] for tool in for_agent}
    assert "mail.send" not in {tool["name"] for tool in for_agent}
    assert {tool["name"]: tool["risk"] for tool in for_person}["mail.send"] == "high"


async def test_a_question_is_answered_once_and_by_who_is_entitled(tmp_path: Path) -> None:
    acts: list[str] = []
    policy = {**ASK_ALL, "approvals": [{"risk": "medium", "approver_role": "admin"}]}
    async with a_house(tmp_path, policy, sender(acts)) as house:
        call_id = await house.bot.hold()
        path = f"/pending/{call_id}/approve"
        assert code(await house.bob.post(path, status=403)) == 6003  # no admin
        assert code(await house.carol.post(path, status=403)) == 6003  # the owner of the agent
        assert code(await house.anna.post(path, {"nonce": "of another showing"}, 403)) == 6003
        assert acts == []
        await house.anna.post(path)
        await until(lambda: acts == ["hello"])
        again = (await house.anna.http.post(path)).status_code
        assert again in (404, 409)  # the question is gone with its call's end
        assert code(await house.anna.post("/pending/01NOSUCHCALL/approve", status=404)) == 6003
    assert acts == ["hello"]


async def test_an_answer_after_the_deadline_does_not_count(tmp_path: Path) -> None:
    clock, acts = HandClock(), list[str]()
    async with a_house(tmp_path, ASK_ALL, sender(acts), clock=clock, approval_timeout_s=60) as house:
        call_id = await house.bot.hold()
        clock.advance(61)
        response = await house.anna.http.post(f"/pending/{call_id}/approve")
        assert response.status_code in (404, 409)
        assert await house.anna.get("/pending") == {"pending": [], "total": 0}
    assert acts == []


async def test_a_quorum_leaves_the_question_open_until_it_is_reached(tmp_path: Path) -> None:
    policy = {**ASK_ALL, "approvals": [{"risk": "medium", "approver_role": "operator", "approvers_required": 2}]}
    async with a_house(tmp_path, policy, sender([])) as house:
        call_id = await house.clerk.hold()
        assert (await house.anna.post(f"/pending/{call_id}/approve"))["open"] is True
        question = (await house.anna.get("/pending"))["pending"][0]
        assert (question["approved_by"], question["approvers_required"]) == (["anna"], 2)
        assert (await house.bob.post(f"/pending/{call_id}/approve"))["open"] is False


async def test_a_grant_lets_the_same_call_pass_until_it_is_taken_back(tmp_path: Path) -> None:
    async with a_house(tmp_path, ASK_ALL, sender([])) as house:
        call_id = await house.bot.hold()
        await house.anna.post(f"/pending/{call_id}/approve", {"grant": {"seconds": 600, "uses": 3}})
        assert (await house.bot.call("mail.send", {"text": "hello"}))["status"] == "success"
        (grant,) = (await house.anna.get("/grants"))["grants"]
        assert (grant["given_by"], grant["uses_left"]) == ("anna", 2)
        revoked = await house.anna.delete(f"/grants/{grant['grant_id']}")
        assert revoked["revoked"]["grant_id"] == grant["grant_id"]
        assert code(await house.anna.delete(f"/grants/{grant['grant_id']}", 404)) == 6003
        await house.bot.hold()


async def test_a_pause_denies_everything_until_it_is_over(tmp_path: Path) -> None:
    async with a_house(tmp_path, ALLOW_ALL, sender([])) as house:
        assert await house.anna.post("/pause", {"reason": "strange things"}) == {"paused": True, "changed": True}
        assert await house.anna.post("/pause") == {"paused": True, "changed": False}
        assert code(await house.bot.call("mail.send")) == 1017
        assert await house.bob.post("/resume") == {"paused": False, "changed": True}

        async def passes() -> bool:
            return bool((await house.bot.call("mail.send"))["status"] == "success")

        await eventually(passes)


async def test_a_policy_is_tried_without_an_agents_knowing(tmp_path: Path) -> None:
    policy = {
        "rules": [{"pattern": "*", "action": "allow", "when": "agent_id == 'bot'"}],
        "boundary": "deny_by_default",
    }
    async with a_house(tmp_path, policy, sender([])) as house:
        wish = {"tool": "mail.send", "args": {"text": "hello"}}
        assert (await house.anna.post("/policy/check", {**wish, "agent": "bot"}))["decision"] == "allow"
        assert (await house.anna.post("/policy/check", wish))["decision"] == "deny"
        assert code(await house.anna.post("/policy/check", {**wish, "agent": "who"}, 404)) == 2002
        assert entries(house.gate, "held", "settled", "judged") == []


async def test_state_is_shown_compared_and_brought_back(tmp_path: Path) -> None:
    async with a_house(tmp_path, ALLOW_ALL, counter()) as house:
        first = await house.bot.call("counter.add", {"n": 1})
        await house.bot.call("counter.add", {"n": 2})
        assert (await house.bot.get("/state"))["document"] == {"n": 3}
        assert (await house.bot.get("/state", version=1))["document"] == {"n": 1}
        assert (await house.bot.get("/state", snapshot_id=first["snapshot_id"]))["version"] == 1
        assert [one["version"] for one in (await house.anna.get("/state/history"))["versions"]] == [2, 1, 0]
        difference = await house.bot.get("/state/diff", **{"from": 1})
        assert difference == {"from": 1, "to": 2, "diff": [{"op": "replace", "path": "/n", "value": 3}]}
        assert code(await house.bot.get("/state", 404, version=9)) == 2002
        assert code(await house.anna.get("/state", 404, project="nowhere")) == 1017
        back = await house.bot.post("/revert", {"snapshot_id": first["snapshot_id"]})
        assert back["status"] == "success"
        undone = await house.anna.post("/revert", {"call_id": first["call_id"]})
        assert undone["status"] == "success"
        assert (await house.bot.get("/state"))["document"] == {}


async def test_what_a_person_reverts_another_person_agrees_to(tmp_path: Path) -> None:
    policy = {"rules": [{"pattern": "counter.*", "action": "allow"}]}
    async with a_house(tmp_path, policy, counter()) as house:
        made = await house.bot.call("counter.add", {"n": 1})
        asked = await house.anna.post("/revert", {"call_id": made["call_id"], "wait": False}, 202)
        question = await _question(house)
        assert question["agent_id"] == "approver:anna"
        assert code(await house.anna.post(f"/pending/{asked['call_id']}/approve", status=403)) == 6003
        await house.carol.post(f"/pending/{asked['call_id']}/approve")
        await until(lambda: entries(house.gate, "reverted"))
        assert (await house.carol.get("/state"))["document"] == {}


async def test_entries_are_filtered_and_capped(tmp_path: Path) -> None:
    async with a_house(tmp_path, ALLOW_ALL, sender([]), reader([])) as house:
        for _ in range(3):
            await house.bot.call("mail.send")
        await house.clerk.call("note.read")
        everything = (await house.anna.get("/entries"))["entries"]
        assert [line["tool"] for line in everything] == ["note.read", "mail.send", "mail.send", "mail.send"]
        assert len((await house.bot.get("/entries", tool="mail.*"))["entries"]) == 3
        assert len((await house.anna.get("/entries", agent="c*"))["entries"]) == 1
        assert len((await house.anna.get("/entries", tool="mail.send", limit=2))["entries"]) == 2
        assert (await house.anna.get("/entries", status="denied"))["entries"] == []
        assert len((await house.anna.get("/entries", since="999999w"))["entries"]) == 5
        assert len((await house.anna.get("/entries", since="0001-01-01T00:00:00+23:59"))["entries"]) == 5
        assert (await house.anna.get("/entries", since="9999-12-31T23:59:59-23:59"))["entries"] == []
        for wrong in ({"limit": 0}, {"limit": 1_001}, {"limit": "x"}, {"since": "yesterday"}, {"status": "fine"}):
            assert code(await house.anna.get("/entries", 400, **wrong)) == 2002


async def test_a_list_ends_where_it_would_be_too_large_for_one_answer(tmp_path: Path) -> None:
    async with a_house(tmp_path, ASK_ALL, sender([])) as house:
        oldest = await house.bot.hold("x" * 1_000)
        for _ in range(3):
            await house.clerk.hold("x" * 1_000)
        assert len((await house.anna.get("/pending"))["pending"]) == 4
        house.served.context.bounds = DoorBounds(page_bytes_max=6_000)
        some = await house.anna.get("/pending")
        own = await house.clerk.get("/pending")
        house.served.context.bounds = DoorBounds(page_bytes_max=1)
        first = await house.anna.get("/pending")
    assert (1 < len(some["pending"]) < 4, some["total"], own["total"]) == (True, 4, 3)
    assert [one["call_id"] for one in first["pending"]] == [oldest]


async def test_entries_come_page_by_page(tmp_path: Path) -> None:
    async with a_house(tmp_path, ALLOW_ALL, sender([])) as house:
        for _ in range(3):
            await house.bot.call("mail.send", {"text": "x" * 1_000})
        whole = (await house.bot.get("/entries", tool="mail.*"))["entries"]
        pages: list[Json] = []
        place: Json = {}
        house.served.context.bounds = DoorBounds(page_bytes_max=1)
        while page := (await house.bot.get("/entries", tool="mail.*", **place))["entries"]:
            assert len(page) == 1
            pages += page
            place = {"before": f"{page[-1]['project']}:{page[-1]['seq']}"}
    assert (pages, len(whole)) == (whole, 3)


async def test_questions_about_the_past_are_few_at_once_and_none_takes_long(tmp_path: Path) -> None:
    async with a_house(tmp_path, ALLOW_ALL, sender([])) as house:
        await house.bot.call("mail.send")
        context = house.served.context
        context.readings = Readings(SqliteStorage(house.gate.ledger.storage.path, steps_between_looks=1))
        for bounds in (DoorBounds(reads_waiting_max=-1_000_000), DoorBounds(read_s=-1_000_000)):
            context.bounds = bounds
            assert code(await house.anna.get("/entries", 503)) == 5003
        context.bounds = DoorBounds()
        assert len((await house.anna.get("/entries"))["entries"]) == 1


async def test_who_waits_when_the_gate_closes_is_told_that_the_question_stays_open(tmp_path: Path) -> None:
    async with a_house(tmp_path, ASK_ALL, sender([])) as house:
        calling = asyncio.create_task(house.bot.call("mail.send", status=202))
        question = await _question(house)
        house.served.context.closing.set()
        await house.gate.close()
        outcome = await calling
    assert (outcome["status"], outcome["call_id"]) == ("pending_approval", question["call_id"])


AGENTS_ONLY = [operation for operation in OPERATIONS if operation.who is Who.AGENT]
APPROVERS_ONLY = [operation for operation in OPERATIONS if operation.who is Who.APPROVER]


async def test_no_token_opens_what_is_anothers_and_each_try_is_recorded(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        for operation in OPERATIONS:
            path = operation.path.replace("{", "").replace("}", "")
            response = await house.nobody.http.request(operation.method, path)
            assert (response.status_code, response.headers["www-authenticate"]) == (401, "Bearer")
            assert code(response.json()) == 6002
        for client, closed in ((house.bot, APPROVERS_ONLY), (house.anna, AGENTS_ONLY)):
            for operation in closed:
                path = operation.path.replace("{", "").replace("}", "")
                response = await client.http.request(operation.method, path, json={})
                assert (response.status_code, code(response.json())) == (403, 6003)
        assert not await house.served.context.approvals.paused()
    async with a_server(tmp_path) as served:
        counts = {
            (one["agent_id"], one["why"]): one["count"]
            for entry in entries(served.gate, "door")
            for one in entry["body"]["refused"]
        }
    assert counts == {
        ("stranger", "not_authenticated"): len(OPERATIONS),
        ("bot", "not_entitled"): len(APPROVERS_ONLY),
        ("anna", "not_entitled"): len(AGENTS_ONLY),
    }


async def test_what_is_no_request_is_one_coded_line(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        json_type = {"content-type": "application/json"}
        for status, content, headers in (
            (400, b"{", json_type),
            (400, b"[]", json_type),
            (400, b'{"tool": "state.get", "tool": "x", "args": {}}', json_type),
            (400, b'{"tool": "state.get", "args": {"n": 9007199254740993}}', json_type),
            (400, b'{"tool": "state.get", "args": {}, "unknown": 1}', json_type),
            (400, b'{"tool": "state.get"}', json_type),
            (400, b'{"tool": "", "args": {}}', json_type),
            (400, b'{"tool": "t", "args": ' + b'{"a":' * 70 + b"1" + b"}" * 70 + b"}", json_type),
            (415, b'{"tool": "state.get", "args": {}}', {"content-type": "text/plain"}),
            (413, b" " * (MESSAGE_BYTES_MAX + 1), json_type),
        ):
            response = await house.bot.http.post("/calls", content=content, headers=headers)
            assert response.status_code == status, (content[:80], response.text)
            error = response.json()["error"]
            assert error["code"] in (1006, 2002)
            assert "\n" not in error["detail"]
        assert code(await house.bot.get("/nowhere", 404)) == 2002
        response = await house.bot.http.put("/calls", json={})
        assert (response.status_code, response.headers["allow"]) == (405, "POST")
        assert code(await house.bot.get("/tools", 400, unknown=1)) == 2002


async def test_a_complaint_does_not_repeat_what_was_sent(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        answer = await house.bot.post("/calls", {"tool": 7, "args": "hunter2-is-my-password"}, 400)
    assert "hunter2" not in str(answer)


async def test_names_of_others_and_pages_of_others_are_turned_away(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}, {"Origin": "null"}):
            response = await house.bot.http.get("/tools", headers=headers)
            assert (response.status_code, code(response.json())) == (403, 6003)
        with pytest.raises(InvalidStatus) as refused:
            await connect(house.served.ws_url, origin=Origin("http://evil.example"))
        assert refused.value.response.status_code == 403
        same = await house.bot.http.get("/tools", headers={"Origin": house.served.url})
        assert same.status_code == 200
        assert same.headers["x-content-type-options"] == "nosniff"
        assert same.headers["cache-control"] == "no-store"


async def test_an_agent_with_every_project_still_has_not_the_gates_own(tmp_path: Path) -> None:
    config = a_config()
    everywhere = replace(config.agents[0], projects=("*",))
    async with a_house(tmp_path, config=replace(config, agents=(everywhere, *config.agents[1:]))) as house:
        assert code(await house.bot.get("/state", 400, project="_gate")) == 2002
        assert (await house.bot.get("/state"))["document"] == {}


async def test_the_document_is_for_who_has_a_token(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        url = f"{house.served.url}/api/openapi.json"
        assert (await house.nobody.http.get(url)).status_code == 401
        for client in (house.bot, house.anna):
            document = (await client.http.get(url)).json()
            assert document["openapi"] == "3.1.0"
            assert set(document["paths"]) == {f"/api/v1{operation.path}" for operation in OPERATIONS}

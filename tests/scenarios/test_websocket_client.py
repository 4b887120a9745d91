"""GateClient: what an agent's program sees, also when connections and servers come and go."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

from agent_gate.client import GateClient, GateUnreachable
from agent_gate.client.link import Delays, websocket_url
from agent_gate.model.errors import GateError, IdentityError, PolicyDeniedError, ToolError
from agent_gate.model.outcome import Status
from tests.gates import ASK_ALL, People, approve, code_of, counter, reader, sender, soon, until
from tests.scenarios.certificates import Authority
from tests.servers import BOT_TOKEN, Served, a_config, a_server, left_alone

RULES: Any = {
    "rules": [
        {"pattern": "note.read*", "action": "allow"},
        {"pattern": "counter.add*", "action": "allow"},
        {"pattern": "state.*", "action": "allow"},
        {"pattern": "mail.send*", "action": "ask"},
        {"pattern": "bomb.drop*", "action": "deny"},
    ],
}


HURRIED = Delays(first_s=0.01, longest_s=0.05, ask_again_s=0.05)


def a_client(server: Served, token: str = BOT_TOKEN, **options: Any) -> GateClient:
    return GateClient(server.url, token, delays=HURRIED, **options)


async def lose_connection(gate: GateClient) -> None:
    connection = gate._link._connection
    assert connection is not None
    connection.transport.abort()
    await until(lambda: gate._link._connection is not connection)


async def test_it_makes_calls_and_gets_outcomes_as_values(tmp_path: Path) -> None:
    async with (
        a_server(tmp_path, RULES, reader([]), counter(), sender([], "bomb.drop")) as server,
        a_client(server) as gate,
    ):
        assert (gate.agent_id, gate.pending) == ("bot", 0)
        outcome = await gate.call("note.read", text="x", request_id="r")
        assert (outcome.status, outcome.data, outcome.request_id) == (Status.SUCCESS, {"read": "x"}, "r")
        recorded = await server.gate.result(outcome.call_id)
        assert recorded is not None
        assert outcome.to_json() == recorded.to_json()
        denied = await gate.call("bomb.drop")
        assert (denied.status, code_of(denied)) == (Status.DENIED, 1001)
        with pytest.raises(PolicyDeniedError):
            denied.raise_for_status()
        first = await gate.call("counter.add", {"n": 1})
        assert (await gate.simulate("counter.add", n=5)).simulated
        assert (await gate.state()).data == {"n": 1}
        assert (await gate.revert(call_id=first.call_id)).request_id
        assert "counter.add" in [one["name"] for one in await gate.tools()]
        run = await gate.execute_plan({"version": "1.0", "steps": [{"tool": "counter.add", "args": {"n": 1}}]})
        assert run["status"] == "completed"


async def test_what_cannot_be_asked_is_raised(tmp_path: Path) -> None:
    async with a_server(tmp_path, RULES, counter()) as server, a_client(server) as gate:
        with pytest.raises(ToolError, match="mode"):
            await gate.call("counter.add", mode="wild")
        with pytest.raises(ToolError, match="not JSON"):
            await gate.call("counter.add", {"n": float("nan")})
        with pytest.raises(GateError, match="no request"):
            await gate.cancel("nobody's")
        with pytest.raises(GateError, match="is not a tool here"):
            await gate.execute_plan({"version": "1.0", "steps": [{"tool": "no.such"}]})


async def test_a_server_that_is_not_there_and_a_token_that_is_not_known_are_told_at_once(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    for url in (f"ws://127.0.0.1:{port}/ws", f"wss://127.0.0.1:{port}/ws"):
        with pytest.raises(GateUnreachable) as raised:
            async with GateClient(url, "token"):
                pass
        assert raised.value.code == 2006
    async with a_server(tmp_path) as server:
        with pytest.raises(IdentityError, match="does not know this token"):
            async with a_client(server, "wrong"):
                pass


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://127.0.0.1:8443", "ws://127.0.0.1:8443/ws"),
        ("https://gate.example/", "wss://gate.example/ws"),
        ("wss://gate.example:1/behind/a/proxy", "wss://gate.example:1/behind/a/proxy"),
    ],
)
def test_whatever_names_the_server_leads_to_its_door(url: str, address: str) -> None:
    assert websocket_url(url) == address


@pytest.mark.parametrize("url", ["", "gate.example", "ftp://gate.example", "ws://", "ws://h:99999", "ws://h:0"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(GateUnreachable):
        websocket_url(url)


async def test_a_patient_client_waits_for_its_server(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    async with GateClient(f"ws://127.0.0.1:{port}/ws", BOT_TOKEN, patient=True, delays=HURRIED) as gate:
        calling = asyncio.create_task(gate.call("note.read"))
        await asyncio.sleep(0.03)
        config = a_config(gateway=type(a_config().gateway)("127.0.0.1", port))
        async with a_server(tmp_path, RULES, reader([]), config=config):
            assert (await soon(calling)).ok


async def test_a_call_survives_lost_connections_and_is_performed_once(tmp_path: Path) -> None:
    acts: list[str] = []
    people = People()
    async with a_server(tmp_path, ASK_ALL, sender(acts), people=people) as server, a_client(server) as gate:
        calling = asyncio.create_task(gate.call("mail.send", text="once"))
        asked = await people.question()
        for _ in range(3):
            await lose_connection(gate)
            await until(lambda: gate._link._connection is not None)
            await until(lambda: [progress.is_left_alone for progress in server.gate._under_way] == [False])
        await approve(server.gate, asked)
        outcome = await soon(calling)
        assert (outcome.data, acts, len(people.asked)) == ({"sent": "once"}, ["once"], 1)


async def test_a_call_survives_a_restart_of_the_server(tmp_path: Path) -> None:
    acts: list[str] = []
    people, again = People(), People()
    async with a_server(tmp_path, ASK_ALL, sender(acts), people=people) as server:
        gate = a_client(server)
        await gate.__aenter__()
        calling = asyncio.create_task(gate.call("mail.send", text="once", request_id="r"))
        asked = await people.question()
        server.context.closing.set()
        await server.gate.close()
        await until(lambda: gate._link._connection is None)
    config = a_config(gateway=type(a_config().gateway)("127.0.0.1", server.port))
    async with a_server(tmp_path, ASK_ALL, sender(acts), people=again, config=config) as server:
        # The client may have come back first, and then its repeated call goes on with the question.
        assert await server.context.mailbox.take_over_held(server.context.identities.agents) <= 1
        await until(lambda: [progress.is_left_alone for progress in server.gate._under_way] == [False])
        await approve(server.gate, asked)
        outcome = await soon(calling)
        assert (outcome.call_id, outcome.data, acts) == (asked.call_id, {"sent": "once"}, ["once"])
        await gate.close()


async def test_results_that_waited_are_taken_and_acknowledged(tmp_path: Path) -> None:
    people = People()
    async with a_server(tmp_path, ASK_ALL, sender([]), people=people) as server:
        async with a_client(server) as gate:
            with pytest.raises(TimeoutError):
                await gate.call("mail.send", text="later", request_id="r", timeout_s=0.01)
            asked = await people.question()
        await left_alone(server)
        await approve(server.gate, asked)
        await soon(server.gate.result(asked.call_id))
        async with a_client(server) as gate:
            assert gate.pending == 1
            [outcome] = await gate.results()
            assert (outcome.request_id, outcome.data) == ("r", {"sent": "later"})
            assert await gate.acknowledge(["r"]) == 1
            assert await gate.results() == []


async def test_an_agent_takes_back_what_it_does_not_want_any_more(tmp_path: Path) -> None:
    people = People()
    async with a_server(tmp_path, ASK_ALL, sender([]), people=people) as server, a_client(server) as gate:
        calling = asyncio.create_task(gate.call("mail.send", request_id="r"))
        await people.question()
        assert code_of(await gate.cancel("r")) == 1020
        assert code_of(await soon(calling)) == 1020


async def test_a_plan_whose_connection_was_lost_is_not_sent_again(tmp_path: Path) -> None:
    people = People()
    async with a_server(tmp_path, ASK_ALL, sender([]), people=people) as server, a_client(server) as gate:
        running = asyncio.create_task(gate.execute_plan({"version": "1.0", "steps": [{"tool": "mail.send"}]}))
        asked = await people.question()
        await lose_connection(gate)
        with pytest.raises(GateUnreachable) as raised:
            await soon(running)
        assert raised.value.code == 2007
        await approve(server.gate, asked)
        assert len(people.asked) == 1


async def test_many_calls_at_once_each_get_their_own_answer(tmp_path: Path) -> None:
    async with a_server(tmp_path, RULES, reader([])) as server, a_client(server) as gate:
        outcomes = await soon(asyncio.gather(*(gate.call("note.read", text=str(number)) for number in range(50))))
        assert [outcome.data for outcome in outcomes] == [{"read": str(number)} for number in range(50)]


async def test_over_tls_with_certificates_that_are_checked(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    async with a_server(tmp_path, RULES, reader([]), tls=authority.server("127.0.0.1")) as server:
        async with a_client(server, ssl=authority.client()) as gate:
            assert (await gate.call("note.read")).ok
        with pytest.raises(GateUnreachable, match="certificate"):
            async with a_client(server):
                pass


async def test_a_call_after_the_end_is_told_so(tmp_path: Path) -> None:
    async with a_server(tmp_path) as server:
        gate = a_client(server)
        with pytest.raises(GateUnreachable, match="not connected"):
            await gate.call("note.read")
        async with gate:
            pass
        with pytest.raises(GateUnreachable, match="closed"):
            await gate.call("note.read")

"""One connection to a home: its handshake, its numbers, its frames, its end."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response

from agent_gate.config import HomeAssistantConfig
from agent_gate.services.home_assistant.address import Address
from agent_gate.services.home_assistant.bounds import DEFAULT_BOUNDS, HomeBounds
from agent_gate.services.home_assistant.faults import AuthRefused, Lost, Refused
from agent_gate.services.home_assistant.link import Link, linked
from tests.gates import soon, until
from tests.scenarios.certificates import Authority
from tests.scripted_home import TOKEN, No, NotAnswered, ScriptedHome, changed, no, state


def address(url: str, **settings: Any) -> Address:
    return Address.of(HomeAssistantConfig(url, **settings))


@asynccontextmanager
async def a_link(
    home: ScriptedHome | None = None, bounds: HomeBounds = DEFAULT_BOUNDS
) -> AsyncIterator[tuple[ScriptedHome, Link]]:
    async with AsyncExitStack() as stack:
        served = await stack.enter_async_context((home or ScriptedHome()).serving())
        yield served, await soon(stack.enter_async_context(linked(address(served.url), TOKEN, bounds)))


def silent(_: dict[str, Any]) -> Any:
    raise NotAnswered


async def test_a_connection_says_the_token_without_a_number_then_its_features_then_counts_up_from_one() -> None:
    async with a_link() as (home, link):
        await link.command("get_config")
        await asyncio.gather(*(link.command("get_states") for _ in range(5)))
        said = [json.loads(text) for text in home.texts]
    assert said[0] == {"type": "auth", "access_token": TOKEN}
    assert said[1] == {"id": 1, "type": "supported_features", "features": {"coalesce_messages": 1}}
    assert [message["id"] for message in said[1:]] == [1, 2, 3, 4, 5, 6, 7]
    assert link.version == "2024.3.3"


async def test_a_server_without_features_will_do() -> None:
    home = ScriptedHome()
    home.answers["supported_features"] = no("unknown_command")
    async with a_link(home) as (_, link):
        assert await link.command("get_config") == {"state": "RUNNING"}


async def test_a_frame_may_be_a_list_of_events_results_and_pongs_which_are_taken_in_order() -> None:
    home, order = ScriptedHome(), []
    home.answers |= {"get_states": silent, "ping": silent}
    async with a_link(home) as (_, link):
        await link.subscribe("state_changed", lambda event: order.append(event["data"]["entity_id"]))
        asked = asyncio.create_task(link.command("get_states", in_order=order.append))
        pinged = asyncio.create_task(link.ping(20))
        await until(lambda: home.types()[-2:] == ["get_states", "ping"])
        first, second = home.heard[-2:]
        await home.say(
            [
                home.event(changed("light.a", state("light.a", "on"))),
                {"id": second["id"], "type": "pong"},
                {"id": first["id"], "type": "result", "success": True, "result": "the states"},
                home.event(changed("light.b", state("light.b", "on"))),
            ]
        )
        assert await soon(asked) == "the states"
        await soon(pinged)
    assert order == ["light.a", "the states", "light.b"]


async def test_a_frame_of_many_megabytes_and_thousands_of_events_is_taken() -> None:
    heard: list[str] = []
    async with a_link() as (home, link):
        await link.subscribe("state_changed", lambda event: heard.append(event["data"]["new_state"]["state"]))
        padding = "x" * 1_000
        await home.say([home.event(changed("sensor.a", state("sensor.a", str(n), text=padding))) for n in range(3_500)])
        await until(lambda: len(heard) == 3_500)
        assert heard == [str(n) for n in range(3_500)]
        assert await link.command("get_config") == {"state": "RUNNING"}


async def test_a_refusal_carries_the_server_s_own_code_and_text() -> None:
    home = ScriptedHome()
    home.answers["call_service"] = no("not_found", "Service light.nope\nnot found.")
    async with a_link(home) as (_, link):
        with pytest.raises(Refused) as raised:
            await link.command("call_service")
    assert (raised.value.reason, raised.value.code, raised.value.problem.detail) == (
        "not_found",
        2003,
        "Service light.nope not found.",
    )


async def test_a_token_that_is_refused_is_an_error_of_its_own_which_does_not_show_it() -> None:
    async with ScriptedHome().serving() as home:
        with pytest.raises(AuthRefused, match="Invalid access token or password") as raised:
            async with linked(address(home.url), "another-token"):
                pass
    assert isinstance(raised.value, RuntimeError)
    assert "another-token" not in str(raised.value)


async def test_a_server_that_repeats_the_token_does_not_get_it_into_the_error() -> None:
    async def talk(connection: ServerConnection) -> None:
        await connection.send('{"type": "auth_required"}')
        token = json.loads(await connection.recv())["access_token"]
        await connection.send(json.dumps({"type": "auth_invalid", "message": f"{token} is no good"}))

    async with serve(talk, "127.0.0.1", 0) as server:
        with pytest.raises(AuthRefused, match=r"refuses the token: \[secret\] is no good"):
            async with linked(address(url_of(server)), TOKEN):
                pass


@pytest.mark.parametrize(
    ("frames", "reason"),
    [
        (['{"type": "hello"}'], "does not speak as home assistant does"),
        (["[]"], "does not speak as home assistant does"),
        (["not json"], "does not speak as home assistant does"),
        (['{"type": "auth_required"}', '{"type": "maybe"}'], "does not speak as home assistant does"),
        ([], "hung up"),
    ],
)
async def test_what_is_no_home_is_not_taken_for_one(frames: list[str], reason: str) -> None:
    async def talk(connection: ServerConnection) -> None:
        for frame in frames:
            await connection.send(frame)
        if frames:
            await connection.wait_closed()

    async with serve(talk, "127.0.0.1", 0) as server:
        with pytest.raises(Lost, match=reason) as raised:
            async with linked(address(url_of(server)), TOKEN):
                pass
    assert not raised.value.sent


async def test_a_server_that_stays_silent_is_given_up() -> None:
    async def talk(connection: ServerConnection) -> None:
        await connection.wait_closed()

    async with serve(talk, "127.0.0.1", 0) as server:
        with pytest.raises(Lost, match="did not answer in time"):
            async with linked(address(url_of(server)), TOKEN, HomeBounds(handshake_s=0.05)):
                pass


async def test_redirects_are_not_followed_so_that_nobody_else_gets_the_token() -> None:
    def send_away(connection: ServerConnection, _: Request) -> Response:
        response = connection.respond(302, "")
        response.headers["Location"] = thief.url.replace("http", "ws") + "/api/websocket"
        return response

    async def talk(_: ServerConnection) -> None: ...

    async with ScriptedHome().serving() as thief, serve(talk, "127.0.0.1", 0, process_request=send_away) as server:
        with pytest.raises(Lost, match="status 302"):
            async with linked(address(url_of(server)), TOKEN):
                pass
    assert thief.attempts == 0


async def test_nobody_there_is_said_in_plain_words() -> None:
    async with serve(lambda _: asyncio.sleep(0), "127.0.0.1", 0) as server:
        url = url_of(server)
    with pytest.raises(Lost, match=r"^connection refused$"):
        async with linked(address(url), TOKEN):
            pass


async def test_all_who_wait_are_told_when_the_connection_is_lost() -> None:
    home = ScriptedHome()
    home.answers["get_states"] = silent
    async with a_link(home) as (_, link):
        waiting = [asyncio.create_task(link.command("get_states")) for _ in range(3)]
        await until(lambda: home.types().count("get_states") == 3)
        await home.drop()
        for one in waiting:
            with pytest.raises(Lost) as raised:
                await soon(one)
            assert raised.value.sent
        await soon(link.ended)
        with pytest.raises(Lost) as raised:
            await link.command("get_states")
        assert not raised.value.sent
        assert not link.is_open


async def test_an_answer_that_does_not_come_in_time_is_lost_and_the_connection_is_not() -> None:
    home = ScriptedHome()
    home.answers["get_states"] = silent
    async with a_link(home) as (_, link):
        with pytest.raises(Lost, match="`get_states` was not answered within") as raised:
            await link.command("get_states", timeout_s=0.01)
        assert raised.value.sent
        late = home.heard[-1]["id"]
        await home.say({"id": late, "type": "result", "success": True, "result": []})
        assert await link.command("get_config") == {"state": "RUNNING"}


async def test_a_ping_has_a_number_and_without_its_pong_the_connection_counts_as_lost() -> None:
    home = ScriptedHome()
    async with a_link(home) as (_, link):
        await link.ping(20)
        assert home.heard[-1] == {"id": 2, "type": "ping"}
        home.answers["ping"] = silent
        with pytest.raises(Lost):
            await link.ping(0.01)


async def test_what_nobody_waits_for_or_understands_is_passed_over() -> None:
    async with a_link() as (home, link):
        odd: list[Any] = [7, None, [], [[1]], {}, {"id": None, "type": "result", "success": False}]
        odd += [{"id": [1], "type": "event"}, {"id": 1, "type": "event", "event": None}, {"id": {}, "type": 5}]
        for message in [*odd, {"id": 999, "type": "result", "success": True}]:
            await home.say(message)
        assert await link.command("get_config") == {"state": "RUNNING"}


async def test_what_is_not_json_ends_the_connection() -> None:
    async with a_link() as (home, link):
        await home.say("{nonsense")
        assert await soon(link.ended) == "what the server says is not JSON"


async def test_a_number_that_no_outcome_could_hold_is_read_as_a_float() -> None:
    home = ScriptedHome()
    home.answers["get_config"] = lambda _: {"large": 2**60}
    async with a_link(home) as (_, link):
        assert repr(await link.command("get_config")) == repr({"large": float(2**60)})


async def test_closing_ends_the_subscriptions_first_whatever_the_server_makes_of_it() -> None:
    home = ScriptedHome()
    async with a_link(home) as (_, link):
        number = await link.subscribe("state_changed", lambda _: None)
        other = await link.subscribe("another", lambda _: None)
        home.answers["unsubscribe_events"] = no("not_found")
    ended = [message for message in home.heard if message["type"] == "unsubscribe_events"]
    assert [message["subscription"] for message in ended] == [number, other]


async def test_closing_does_not_wait_for_a_server_that_has_fallen_silent() -> None:
    home = ScriptedHome()
    home.answers["unsubscribe_events"] = silent
    async with a_link(home, HomeBounds(goodbye_s=0.05)) as (_, link):
        await link.subscribe("state_changed", lambda _: None)
    assert not link.is_open


async def test_a_refused_subscription_hears_nothing() -> None:
    home, heard = ScriptedHome(), list[Any]()

    def refuse(message: dict[str, Any]) -> Any:
        raise No("unauthorized")

    home.answers["subscribe_events"] = refuse
    async with a_link(home) as (_, link):
        with pytest.raises(Refused) as raised:
            await link.subscribe("homeassistant_started", heard.append)
        await home.say(home.event({"event_type": "homeassistant_started"}))
        await link.command("get_config")
    assert raised.value.reason == "unauthorized"
    assert heard == []


@pytest.mark.parametrize("level", [logging.DEBUG, logging.INFO])
async def test_no_log_shows_the_token_at_any_level(level: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(level)
    async with a_link() as (_, link):
        await link.command("get_config")
    assert TOKEN not in caplog.text
    assert "access_token" not in caplog.text


async def test_tls_is_spoken_where_the_url_says_so_and_checked_where_the_settings_do(tmp_path: Path) -> None:
    async with ScriptedHome().serving(Authority(tmp_path).server("127.0.0.1")) as home:
        async with linked(address(home.url), TOKEN) as link:
            assert await link.command("get_config") == {"state": "RUNNING"}
        with pytest.raises(Lost, match=r"certificate.*set verify_ssl to false"):
            async with linked(address(home.url, verify_ssl=True), TOKEN):
                pass
        with pytest.raises(Lost, match="with it write https://"):
            async with linked(address(home.url.replace("https", "http")), TOKEN):
                pass
    async with ScriptedHome().serving() as plain:
        with pytest.raises(Lost, match="without it write http://"):
            async with linked(address(plain.url.replace("http", "https")), TOKEN):
                pass


def url_of(server: Any) -> str:
    return f"http://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}"

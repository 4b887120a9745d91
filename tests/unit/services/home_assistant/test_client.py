"""Asking and acting: what a call brings back, what is refused, and what nobody knows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agent_gate.config import HomeAssistantConfig
from agent_gate.model.bounds import HOME_CONTEXTS_MAX
from agent_gate.services.home_assistant.client import Called, HomeClient
from agent_gate.services.home_assistant.faults import AuthRefused, OutcomeUnknown, Refused, Unreachable
from agent_gate.simulated_home import Running, simulated_home
from agent_gate.system.clock import SystemClock
from tests.gates import soon, until
from tests.scripted_home import TOKEN, Pauses, ScriptedHome, a_client, changed, no, state

FIRST_TRY = 0.8


@pytest.fixture
async def running() -> AsyncIterator[Running]:
    async with simulated_home() as running:
        yield running


@pytest.fixture
def pauses() -> Pauses:
    return Pauses()


@pytest.fixture
async def client(running: Running, pauses: Pauses) -> AsyncIterator[HomeClient]:
    async with a_client(running.url, running.token, pause=pauses) as client:
        yield client


@pytest.fixture
async def cut_off(client: HomeClient, running: Running, pauses: Pauses) -> HomeClient:
    """A client whose WebSocket is down, and that is not yet trying again."""
    running.home.drop_connections()
    await until(lambda: FIRST_TRY in pauses.asked)
    return client


async def call(client: HomeClient, service: str, entity_id: Any = None, **data: Any) -> Called:
    domain, _, name = service.partition(".")
    target = {"entity_id": entity_id} if entity_id else None
    return await soon(client.call_service(domain, name, target=target, data=data, wants_response=False, timeout_s=20))


async def test_a_call_brings_back_its_context_and_what_it_changed(client: HomeClient, running: Running) -> None:
    called = await call(client, "light.turn_on", "light.bed_light")
    assert [(one.entity_id, one.state, one.context_id) for one in called.changed] == [
        ("light.bed_light", "on", called.context_id)
    ]
    assert running.home.calls[-1].context.id == called.context_id
    assert client.home.entities["light.bed_light"] == called.changed[0]


async def test_a_call_that_changes_nothing_still_has_its_context(client: HomeClient) -> None:
    assert client.home.entities["light.bed_light"].state == "off"
    called = await call(client, "light.turn_off", "light.bed_light")
    assert called.changed == ()
    assert called.context_id


class Telling(ScriptedHome):
    """Tells of changes in the same frame as the result of a call, and before it."""

    def __init__(self, *changes: tuple[str | None, str, str, str]) -> None:
        super().__init__()
        self.changes = changes

    async def take(self, message: dict[str, Any]) -> None:
        if message["type"] != "call_service":
            await super().take(message)
            return
        result = {"id": message["id"], "type": "result", "success": True, "result": {"context": {"id": "ours"}}}
        await self.say([*(self._told(*change) for change in self.changes), result])

    def _told(self, user: str | None, context: str, entity_id: str, value: str) -> dict[str, Any]:
        new = state(entity_id, value) | {"context": {"id": context, "user_id": user}}
        return self.event(changed(entity_id, new))


US = "user-of-the-gate"


async def test_of_several_writes_the_last_of_each_entity_counts_and_changes_by_others_do_not() -> None:
    home = Telling(
        (US, "ours", "lock.a", "locking"),
        (None, "a sensor's", "sensor.b", "7"),
        (US, "another call's", "light.c", "on"),
        (US, "ours", "lock.a", "locked"),
        (US, "ours", "lock.d", "locked"),
        (None, "a person's", "lock.d", "unlocked"),
    )
    async with home.serving(), a_client(home.url) as client:
        called = await call(client, "lock.lock", ["lock.a", "lock.d"])
        assert client.home.entities["lock.d"].state == "unlocked"
    assert [(one.entity_id, one.state) for one in called.changed] == [("lock.a", "locked"), ("lock.d", "locked")]


async def test_what_a_busy_home_does_meanwhile_does_not_push_out_what_the_call_changed() -> None:
    others = [(None, f"another's {n}", f"sensor.s{n}", "7") for n in range(2 * HOME_CONTEXTS_MAX)]
    home = Telling((US, "ours", "lock.a", "locked"), *others)
    async with home.serving(), a_client(home.url) as client:
        called = await call(client, "lock.lock", "lock.a")
    assert [one.entity_id for one in called.changed] == ["lock.a"]


async def test_where_the_server_does_not_say_who_we_are_changes_are_told_apart_by_their_context() -> None:
    home = Telling((None, "ours", "lock.a", "locked"), (US, "another's", "lock.b", "locked"))
    home.answers["auth/current_user"] = no("unknown_command")
    async with home.serving(), a_client(home.url) as client:
        called = await call(client, "lock.lock", "lock.a")
    assert [one.entity_id for one in called.changed] == ["lock.a"]


async def test_target_data_and_response_go_over_the_wire_as_the_server_wants_them() -> None:
    home = ScriptedHome()
    home.answers["call_service"] = lambda _: {"context": {"id": "c"}, "response": {"forecast": []}}
    async with home.serving(), a_client(home.url) as client:
        called = await client.call_service(
            "weather", "get", target={"area_id": "a"}, data={"type": "d"}, wants_response=True, timeout_s=20
        )
        await call(client, "homeassistant.check_config")
    sent = [{key: value for key, value in one.items() if key != "id"} for one in home.heard if "domain" in one]
    assert sent == [
        {
            "type": "call_service",
            "domain": "weather",
            "service": "get",
            "service_data": {"type": "d"},
            "target": {"area_id": "a"},
            "return_response": True,
        },
        {"type": "call_service", "domain": "homeassistant", "service": "check_config", "service_data": {}},
    ]
    assert called == Called("c", (), {"forecast": []})


@pytest.mark.parametrize(
    ("service", "data", "reason", "text"),
    [
        ("light.nope", {}, "not_found", "Service light.nope not found"),
        ("light.turn_on", {"brightness_pct": "bright"}, "invalid_format", "expected float"),
    ],
)
async def test_a_refusal_says_what_the_server_said(
    client: HomeClient, service: str, data: dict[str, Any], reason: str, text: str
) -> None:
    with pytest.raises(Refused, match=text) as raised:
        await call(client, service, "light.bed_light", **data)
    assert (raised.value.reason, raised.value.code) == (reason, 2003)


async def test_while_the_websocket_is_down_calls_go_by_rest(cut_off: HomeClient, running: Running) -> None:
    called = await call(cut_off, "light.turn_on", "light.bed_light", brightness_pct=50)
    made = running.home.calls[-1]
    assert made.data == {"entity_id": "light.bed_light", "brightness_pct": 50}
    assert called.context_id == made.context.id
    assert [(one.entity_id, one.state) for one in called.changed] == [("light.bed_light", "on")]
    assert await call(cut_off, "light.turn_on", "light.bed_light", brightness_pct=50) == Called(None, ())


async def test_by_rest_the_target_goes_before_an_id_in_the_data_as_it_does_by_websocket(
    cut_off: HomeClient, running: Running
) -> None:
    await soon(
        cut_off.call_service(
            "light",
            "turn_on",
            target={"entity_id": "light.bed_light"},
            data={"entity_id": "light.kitchen_lights"},
            wants_response=False,
            timeout_s=20,
        )
    )
    assert running.home.states["light.bed_light"].state == "on"
    assert "light.kitchen_lights" not in str(running.home.calls[-1].data)


async def test_a_call_that_rests_on_what_is_live_does_not_go_by_rest(cut_off: HomeClient, running: Running) -> None:
    with pytest.raises(Unreachable):
        await cut_off.call_service(
            "light",
            "turn_on",
            target={"area_id": "kitchen"},
            data={},
            wants_response=False,
            timeout_s=20,
            only_live=True,
        )
    assert not running.home.calls


async def test_by_rest_a_refusal_has_no_reason_but_says_where_to_look(cut_off: HomeClient) -> None:
    with pytest.raises(Refused, match="does not say why; check names and values of the fields") as raised:
        await call(cut_off, "light.nope", "light.bed_light")
    assert raised.value.reason == "invalid_format"


async def test_a_call_whose_answer_does_not_come_in_time_is_unknown_and_made_once(
    client: HomeClient, running: Running
) -> None:
    running.home.hold_answers()
    with pytest.raises(OutcomeUnknown, match="nobody knows whether") as raised:
        await client.call_service(
            "light", "turn_on", target={"entity_id": "light.bed_light"}, data={}, wants_response=False, timeout_s=0.1
        )
    assert raised.value.code == 2007
    assert len(running.home.calls) == 1


async def test_a_call_is_unknown_where_the_connection_is_lost_under_it_and_is_not_made_again(
    client: HomeClient, running: Running, pauses: Pauses
) -> None:
    running.home.hold_answers()
    under_way = asyncio.create_task(call(client, "light.turn_on", "light.bed_light"))
    await until(lambda: running.home.calls)
    running.home.drop_connections()
    with pytest.raises(OutcomeUnknown):
        await soon(under_way)
    running.home.release_answers()
    await pauses.end(FIRST_TRY)
    await until(lambda: client.home.is_live)
    assert len(running.home.calls) == 1


async def test_by_rest_too_a_call_whose_answer_is_lost_is_unknown(cut_off: HomeClient, running: Running) -> None:
    running.home.hold_answers()
    with pytest.raises(OutcomeUnknown):
        await cut_off.call_service(
            "light", "turn_on", target={"entity_id": "light.bed_light"}, data={}, wants_response=False, timeout_s=0.5
        )
    assert len(running.home.calls) == 1


async def test_where_nobody_is_there_nothing_was_sent_and_the_caller_is_told_so(pauses: Pauses) -> None:
    async with ScriptedHome().serving() as home:
        url = home.url
    async with a_client(url, pause=pauses) as client:
        with pytest.raises(Unreachable, match="connection refused") as raised:
            await call(client, "light.turn_on", "light.a")
        assert raised.value.code == 2006
        with pytest.raises(Unreachable):
            await soon(client.fire_event("my_event", {}))
        with pytest.raises(Unreachable):
            await soon(client.render("{{ 1 }}"))


async def test_a_question_that_is_lost_is_no_mystery(client: HomeClient, running: Running) -> None:
    running.home.fall_silent()
    with pytest.raises(Unreachable, match="`get_config` was not answered"):
        await client.command("get_config", timeout_s=0.05)
    running.home.speak_again()


async def test_a_template_is_rendered_and_a_mistake_in_it_explained(client: HomeClient) -> None:
    assert await client.render("{{ 1 + 1 }} °C") == "2 °C"
    with pytest.raises(Refused, match="Error rendering template"):
        await client.render("{{ nope( }}")


async def test_a_token_that_may_not_render_is_not_taken_for_a_dead_one(running: Running) -> None:
    async with a_client(running.url, running.limited_token) as client:
        with pytest.raises(Refused, match="an administrator's token may") as raised:
            await client.render("{{ 1 }}")
        assert raised.value.reason == "unauthorized"
        assert (client.trouble, client.home.is_live) == ("", True)
        with pytest.raises(Refused, match="an administrator's may"):
            await client.fire_event("my_event", {})
        assert (await call(client, "light.turn_on", "light.bed_light")).changed


async def test_a_token_that_may_only_read_is_refused_by_both_ways(running: Running, pauses: Pauses) -> None:
    async with a_client(running.url, running.readonly_token, pause=pauses) as client:
        with pytest.raises(Refused) as by_websocket:
            await call(client, "light.turn_on", "light.bed_light")
        running.home.drop_connections()
        await until(lambda: FIRST_TRY in pauses.asked)
        with pytest.raises(Refused) as by_rest:
            await call(client, "light.turn_on", "light.bed_light")
    assert (by_websocket.value.reason, by_rest.value.reason) == ("unauthorized", "unauthorized")


async def test_history_takes_moments_with_an_offset_and_names_its_mistakes(client: HomeClient) -> None:
    await call(client, "light.turn_on", "light.bed_light")
    rows = await client.history(["light.bed_light"], "2020-01-01T00:00:00+00:00", "2100-01-01T00:00:00+00:00")
    assert [row["state"] for row in rows[0]][-1] == "on"
    assert rows[0][0]["entity_id"] == "light.bed_light"
    with pytest.raises(Refused, match="Invalid"):
        await client.history(["not an id"], "2020-01-01T00:00:00+00:00", "2100-01-01T00:00:00+00:00")


async def test_statistics_are_asked_for_by_the_name_that_servers_know_and_with_all_types() -> None:
    home = ScriptedHome()
    home.answers["recorder/statistics_during_period"] = lambda _: {"sensor.a": [{"start": 1, "mean": 2.0}]}
    async with home.serving(), a_client(home.url) as client:
        found = await client.statistics(["sensor.a"], "2026-03-04T00:00:00Z", "2026-03-05T00:00:00Z", "hour")
    assert found == {"sensor.a": [{"start": 1, "mean": 2.0}]}
    assert {key: value for key, value in home.heard[-9].items() if key != "id"} == {
        "type": "recorder/statistics_during_period",
        "start_time": "2026-03-04T00:00:00Z",
        "end_time": "2026-03-05T00:00:00Z",
        "statistic_ids": ["sensor.a"],
        "period": "hour",
        "types": ["mean", "min", "max", "sum", "state"],
    }


async def test_an_event_is_fired_and_heard_also_after_a_reconnect_until_listening_ends(
    client: HomeClient, running: Running, pauses: Pauses
) -> None:
    heard: list[Any] = []
    end = client.listen("my_event", lambda event: heard.append(event["data"]))
    await client.command("get_config")
    await client.fire_event("my_event", {"n": 1})
    await until(lambda: heard == [{"n": 1}])
    running.home.drop_connections()
    await pauses.end(FIRST_TRY)
    await until(lambda: client.home.is_live)
    await client.fire_event("my_event", {"n": 2})
    await until(lambda: heard == [{"n": 1}, {"n": 2}])
    end()
    await client.fire_event("my_event", {"n": 3})
    await client.command("get_config")
    assert heard == [{"n": 1}, {"n": 2}]


async def test_an_event_is_fired_by_rest_while_the_websocket_is_down(
    cut_off: HomeClient, running: Running, pauses: Pauses
) -> None:
    async with a_client(running.url, running.token) as other:
        heard: list[Any] = []
        other.listen("my_event", lambda event: heard.append(event["data"]))
        await other.command("get_config")
        await cut_off.fire_event("my_event", {"n": 1})
        await until(lambda: heard == [{"n": 1}])


async def test_several_listeners_share_one_subscription_and_one_that_fails_harms_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    home, heard = ScriptedHome(), list[Any]()

    def fail(event: Any) -> None:
        raise ValueError(event["data"]["secret"])

    async with home.serving(), a_client(home.url) as client:
        client.listen("my_event", fail)
        end = client.listen("my_event", heard.append)
        client.listen("my_event", heard.append)
        await client.command("get_config")
        event = {"event_type": "my_event", "data": {"secret": "hunter2"}}
        await home.say(home.event(event))
        await until(lambda: heard == [event, event])
        end()
        await home.say(home.event(event))
        await until(lambda: heard == [event, event, event])
        assert client.home.is_live
        subscribed = [one for one in home.heard if one.get("event_type") == "my_event"]
    assert len(subscribed) == 1
    assert "ValueError" in caplog.text
    assert "hunter2" not in caplog.text


async def test_the_last_listener_ends_the_subscription_and_a_new_one_begins_another() -> None:
    home = ScriptedHome()
    async with home.serving(), a_client(home.url) as client:
        client.listen("my_event", lambda _: None)()
        end = client.listen("my_event", lambda _: None)
        await client.command("get_config")
        number = home.subscription("my_event")
        end()
        await until(lambda: "unsubscribe_events" in home.types())
        assert home.heard[-1]["subscription"] == number
        client.listen("my_event", lambda _: None)
        await until(lambda: home.subscription("my_event") > number)


async def test_an_event_that_the_token_may_not_hear_is_not_heard_and_nothing_else_breaks() -> None:
    home = ScriptedHome()
    async with home.serving(), a_client(home.url) as client:
        home.answers["subscribe_events"] = no("unauthorized")
        client.listen("my_event", lambda _: None)
        await client.command("get_config")
        assert client.home.is_live


async def test_by_which_connection_an_event_is_heard_can_be_known(
    client: HomeClient, running: Running, pauses: Pauses
) -> None:
    client.listen("my_event", lambda _: None)
    assert client.heard_by("my_event") == 0
    await soon(client.settle())
    first = client.heard_by("my_event")
    running.home.drop_connections()
    await until(lambda: client.heard_by("my_event") == 0)
    await pauses.end(FIRST_TRY)
    await until(lambda: client.heard_by("my_event") > first > 0)
    assert client.heard_by("another_event") == 0


async def test_a_start_that_is_broken_off_leaves_nothing_behind() -> None:
    home, pauses = ScriptedHome(), Pauses()
    home.phase = "STARTING"
    async with home.serving():
        client = HomeClient(HomeAssistantConfig(home.url), TOKEN, SystemClock(), pause=pauses)
        starting = asyncio.create_task(client.start())
        await until(lambda: 1.0 in pauses.asked)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        await soon(home.connections[-1].wait_closed())


@pytest.mark.parametrize("token", ["", "two words", "line\nbreak", "tëxt", "nul\0"])
def test_what_cannot_be_a_token_is_refused_before_it_is_sent_anywhere(token: str) -> None:
    with pytest.raises(AuthRefused) as raised:
        HomeClient(HomeAssistantConfig("http://127.0.0.1:1"), token, SystemClock())
    assert not token or token not in str(raised.value)


async def test_no_object_of_the_client_shows_the_token(client: HomeClient) -> None:
    shown = [
        repr(client),
        repr(vars(client)),
        *(repr(vars(part)) for part in vars(client).values() if hasattr(part, "__dict__")),
    ]
    assert TOKEN not in "".join(shown)


async def test_closing_twice_or_before_the_start_is_harmless(running: Running) -> None:
    client = HomeClient(HomeAssistantConfig(running.url), running.token, SystemClock())
    await client.close()
    async with a_client(running.url, running.token) as other:
        await other.close()

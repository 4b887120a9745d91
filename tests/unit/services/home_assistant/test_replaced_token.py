"""A token that is replaced while the gate runs: it is taken up, and one that was refused is never shown again."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from agent_gate.config import HomeAssistantConfig
from agent_gate.model.errors import ConfigError, StorageError
from agent_gate.services.home_assistant.client import HomeClient
from agent_gate.services.home_assistant.faults import AuthRefused, Unreachable
from agent_gate.system.clock import SystemClock
from tests.gates import soon, until
from tests.scripted_home import JITTER, TOKEN, Pauses, ScriptedHome, state

FIRST_TRY, LOOK, POLL = 0.8, 5.0, 60
NEW = "eyJhbGciOiJIUzI1NiJ9.another-token-of-the-tests"


class Given:
    """Where the owner keeps the token."""

    def __init__(self) -> None:
        self.token = TOKEN
        self.fault: Exception | None = None
        self.looks = 0

    async def look_up(self) -> str:
        self.looks += 1
        if self.fault:
            raise self.fault
        return self.token


@asynccontextmanager
async def a_client(home: ScriptedHome, given: Given, pauses: Pauses) -> AsyncIterator[HomeClient]:
    settings = HomeAssistantConfig(home.url)
    client = HomeClient(
        settings, given.token, SystemClock(), look_up=given.look_up, pause=pauses, jitter=lambda: JITTER
    )
    try:
        await soon(client.start())
        yield client
    finally:
        await soon(client.close())


def shown(home: ScriptedHome) -> list[str]:
    """The tokens of each greeting."""
    greetings = (json.loads(text) for text in home.texts)
    return [message["access_token"] for message in greetings if message.get("type") == "auth"]


async def revoked(home: ScriptedHome, client: HomeClient, pauses: Pauses, token: str = NEW) -> None:
    """The home takes another token from now on, and lets go of whoever has the old one."""
    home.token = token
    await home.drop()
    await pauses.end(FIRST_TRY)
    await until(lambda: "refuses the token" in client.trouble)


@pytest.fixture
def home() -> ScriptedHome:
    home = ScriptedHome()
    home.states = [state("light.a", "on")]
    return home


async def test_a_refused_token_is_replaced_without_a_restart(home: ScriptedHome) -> None:
    given, pauses = Given(), Pauses()
    async with home.serving(), a_client(home, given, pauses) as client:
        await revoked(home, client, pauses)
        assert client.trouble.endswith("give the gate another one")
        given.token = NEW
        await pauses.end(LOOK)
        await until(lambda: client.home.is_live)
        assert (client.trouble, shown(home)) == ("", [TOKEN, TOKEN, NEW])
        assert await client.command("get_config") == {"state": "RUNNING"}


async def test_rest_shows_the_new_token_too(home: ScriptedHome) -> None:
    given, pauses = Given(), Pauses()
    home.rest["/api/history/period/2026-03-04T12%3A00%3A00Z"] = list
    async with home.serving(), a_client(home, given, pauses) as client:
        await revoked(home, client, pauses)
        given.token = NEW
        await pauses.end(LOOK)
        await until(lambda: client.home.is_live)
        assert await client.history(["light.a"], "2026-03-04T12:00:00Z", "2026-03-04T13:00:00Z") == []


async def test_a_refused_token_is_not_shown_again_however_often_it_is_looked_for(home: ScriptedHome) -> None:
    given, pauses = Given(), Pauses()
    async with home.serving(), a_client(home, given, pauses) as client:
        await revoked(home, client, pauses)
        for fault in (None, StorageError("the disk is gone"), ConfigError("no token"), OSError("no file")):
            given.fault = fault
            await pauses.end(LOOK)
        await until(lambda: given.looks >= 5)
        assert shown(home) == [TOKEN, TOKEN]
        with pytest.raises(Unreachable, match="refuses the token"):
            await client.command("get_config")


async def test_another_token_that_is_refused_too_is_shown_once(home: ScriptedHome) -> None:
    given, pauses = Given(), Pauses()
    async with home.serving(), a_client(home, given, pauses) as client:
        await revoked(home, client, pauses)
        given.token = "not-the-right-one"
        await pauses.end(LOOK)
        await until(lambda: len(shown(home)) == 3)
        looks = given.looks
        await pauses.end(LOOK)
        await until(lambda: given.looks > looks)
        given.token = NEW
        await pauses.end(LOOK)
        await until(lambda: client.home.is_live)
        assert shown(home) == [TOKEN, TOKEN, "not-the-right-one", NEW]


async def test_a_token_that_is_replaced_is_used_from_the_next_connection_on(home: ScriptedHome) -> None:
    given, pauses = Given(), Pauses()
    async with home.serving(), a_client(home, given, pauses) as client:
        home.token = given.token = NEW
        await home.drop()
        await pauses.end(FIRST_TRY)
        await until(lambda: client.home.is_live)
        assert shown(home) == [TOKEN, NEW]


async def test_polls_that_ended_at_the_old_token_go_on_with_the_new_one(home: ScriptedHome) -> None:
    given, pauses = Given(), Pauses()
    home.is_down = True
    async with home.serving(), a_client(home, given, pauses) as client:
        assert client.home.is_ready
        home.token = NEW
        await pauses.end(POLL)
        await until(lambda: home.rest_asked[-1] == "/api/config")
        given.token = NEW
        home.states = [state("light.a", "off", "01")]
        await pauses.end(FIRST_TRY)
        await until(lambda: client.home.entities["light.a"].state == "off")


async def test_a_token_that_is_refused_at_the_start_still_ends_it(home: ScriptedHome) -> None:
    given, pauses = Given(), Pauses()
    home.token = NEW
    async with home.serving():
        client = HomeClient(HomeAssistantConfig(home.url), TOKEN, SystemClock(), look_up=given.look_up, pause=pauses)
        with pytest.raises(AuthRefused):
            await soon(client.start())
    assert (shown(home), given.looks) == ([TOKEN], 0)


async def test_no_log_shows_either_token(home: ScriptedHome, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    given, pauses = Given(), Pauses()
    async with home.serving(), a_client(home, given, pauses) as client:
        await revoked(home, client, pauses)
        given.token = NEW
        await pauses.end(LOOK)
        await until(lambda: client.home.is_live)
    assert TOKEN not in caplog.text
    assert NEW not in caplog.text
    assert "tried with another token, sha256:" in caplog.text


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"id": "u", "name": "owner", "is_admin": True}, "the token is of `owner`, an administrator"),
        ({"id": "u", "name": "bot", "is_admin": False}, "the token is of `bot`, who is no administrator"),
        ({"id": "u", "name": "", "is_admin": "yes"}, "the token is of `u`, who is no administrator"),
    ],
)
async def test_whose_token_it_is_and_what_it_may_do_is_known(
    home: ScriptedHome, answer: dict[str, object], told: str
) -> None:
    home.answers["auth/current_user"] = lambda _: answer
    async with home.serving(), a_client(home, Given(), Pauses()) as client:
        assert client.user is not None
        assert client.user.told.startswith(told)

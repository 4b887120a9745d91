"""Where the token of Home Assistant comes from."""

from __future__ import annotations

import pytest

from agent_gate.config import HomeAssistantConfig
from agent_gate.model.errors import ConfigError
from agent_gate.services.home_assistant.credentials import resolve_token


class Owner:
    """What the owner of the gate has given it."""

    def __init__(self, **given: str) -> None:
        self._given = given

    async def resolve_owner_contact_info(self, key: str) -> str | None:
        return self._given.get(key)


NOBODY = Owner()
ENVIRONMENT = {"HOME_ASSISTANT_TOKEN": " of-the-environment\n"}


async def test_the_configuration_goes_before_the_owner_and_the_owner_before_the_environment() -> None:
    owner = Owner(home_assistant_token="of-the-owner")
    plain, own = HomeAssistantConfig("http://ha"), HomeAssistantConfig("http://ha", "of-the-file")
    assert await resolve_token(own, owner, ENVIRONMENT) == "of-the-file"
    assert await resolve_token(plain, owner, ENVIRONMENT) == "of-the-owner"
    assert await resolve_token(plain, NOBODY, ENVIRONMENT) == "of-the-environment"


@pytest.mark.parametrize("environment", [{}, {"HOME_ASSISTANT_TOKEN": " "}])
async def test_without_a_token_the_error_says_what_to_do(environment: dict[str, str]) -> None:
    with pytest.raises(RuntimeError, match="home_assistant_token` contact_info entry") as raised:
        await resolve_token(HomeAssistantConfig("http://ha"), NOBODY, environment)
    assert "agent-gate owner set home_assistant_token" in str(raised.value)
    assert isinstance(raised.value, ConfigError)


@pytest.mark.parametrize("token", ["Bearer abc.def", "tökén", "a\x00b", "a\nb"])
async def test_what_cannot_be_a_token_is_not_sent_and_not_shown(token: str) -> None:
    with pytest.raises(RuntimeError) as raised:
        await resolve_token(HomeAssistantConfig("http://ha"), Owner(home_assistant_token=token), {})
    assert token not in str(raised.value)
    assert raised.value.__cause__ is None

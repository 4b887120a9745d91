"""The access token of Home Assistant: where it is found, how it is replaced, and what is said where there is none."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from agent_gate.config import HomeAssistantConfig
from agent_gate.model.errors import ConfigError, GateError

CONTACT_KEY = "home_assistant_token"
VARIABLE = "HOME_ASSISTANT_TOKEN"
HOW_TO_SET = f"make one in your profile there, and run `agent-gate owner set {CONTACT_KEY}`"
_log = logging.getLogger(__name__)


class Contacts(Protocol):
    """Contact info that the owner gave to be used; another service fills it."""

    async def resolve_owner_contact_info(self, key: str) -> str | None: ...


class TokenMissing(ConfigError, RuntimeError):
    """Nobody gave a token."""


class TokenRefused(ConfigError, RuntimeError):
    """The server does not take the token that was given."""


class Token:
    """The one in use, in whose place another comes once somebody has given one."""

    def __init__(self, value: str, look_up: Callable[[], Awaitable[str]] | None = None) -> None:
        self.value = value
        self._look_up = look_up

    @property
    def can_be_replaced(self) -> bool:
        return self._look_up is not None

    @property
    def named(self) -> str:
        """As it may stand in a log: the first letters of a long-lived token are the same for everybody."""
        return f"sha256:{hashlib.sha256(self.value.encode()).hexdigest()[:8]}…"

    async def renew(self) -> bool:
        """Look whether another one was given; where none can be found any more, the old one stays."""
        if self._look_up is None:
            return False
        try:
            found = await self._look_up()
        except (GateError, OSError) as error:
            _log.debug("no other token for home assistant: %s", error)
            return False
        is_another = found != self.value
        self.value = found
        return is_another


async def resolve_token(settings: HomeAssistantConfig, contacts: Contacts, environment: Mapping[str, str]) -> str:
    """From the configuration, else from the owner's contact info, else from the environment."""
    token = (
        settings.token
        or (await contacts.resolve_owner_contact_info(CONTACT_KEY) or "").strip()
        or environment.get(VARIABLE, "").strip()
    )
    if not token:
        raise TokenMissing(
            f"no token for Home Assistant: the owner contact must have a `{CONTACT_KEY}` contact_info entry",
            suggestion=f"run `agent-gate owner set {CONTACT_KEY}`, or set {VARIABLE}",
        )
    if not token.isascii() or not token.isprintable() or " " in token:
        raise TokenMissing(
            "what is given as the token of Home Assistant is none: it has blanks, or letters that no token has",
            suggestion=HOW_TO_SET,
        )
    return token

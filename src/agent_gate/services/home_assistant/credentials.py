"""The access token of Home Assistant: where it is looked for, and what is said where there is none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from agent_gate.config import HomeAssistantConfig
from agent_gate.model.errors import ConfigError

CONTACT_KEY = "home_assistant_token"
VARIABLE = "HOME_ASSISTANT_TOKEN"


class Contacts(Protocol):
    """What the owner gave to be used; another service fills it."""

    async def resolve_owner_contact_info(self, key: str) -> str | None: ...


class TokenMissing(ConfigError, RuntimeError):
    """Nobody gave a token."""


class TokenRefused(ConfigError, RuntimeError):
    """The server does not take the token that was given."""


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
            suggestion=f"make one in your profile there, and run `agent-gate owner set {CONTACT_KEY}`",
        )
    return token

"""One look at a home, for whoever asks whether a gate would get on with it: nothing is kept, nothing is changed."""

from __future__ import annotations

from dataclasses import dataclass

from agent_gate.config import HomeAssistantConfig
from agent_gate.services.home_assistant.address import Address
from agent_gate.services.home_assistant.credentials import Token
from agent_gate.services.home_assistant.faults import Lost, Refused
from agent_gate.services.home_assistant.health import HomeHealth
from agent_gate.services.home_assistant.link import linked
from agent_gate.services.home_assistant.rest import Rest
from agent_gate.services.home_assistant.sync import own_user, runs


@dataclass(frozen=True, slots=True)
class Sight:
    health: HomeHealth
    is_running: bool = False


async def look_at(settings: HomeAssistantConfig, token: str) -> Sight:
    """AuthRefused where the token is not good; a server that cannot be reached is told in the health."""
    address = Address.of(settings)
    try:
        async with linked(address, token) as link:
            user, is_running = await own_user(link), await runs(link)
            return Sight(HomeHealth(address.rest_url, link.version, user), is_running)
    except Lost as lost:
        reason = str(lost)
    version = await _version_by_rest(address, token)
    besides = f"; by REST it answers, as {version}" if version else ""
    return Sight(HomeHealth(address.rest_url, version, None, f"it cannot be reached: {reason}{besides}"))


async def _version_by_rest(address: Address, token: str) -> str:
    rest = Rest(address, Token(token))
    try:
        return str((await rest.config()).get("version") or "")
    except (Lost, Refused):
        return ""
    finally:
        await rest.close()

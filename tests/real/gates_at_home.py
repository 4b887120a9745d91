"""Gates whose home is a real Home Assistant, on the world's own clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from agent_gate import Agent, Gate, Outcome, open_gate
from agent_gate.config import HomeAssistantConfig
from agent_gate.services.home_assistant.client import HomeClient
from agent_gate.services.home_assistant.service import HomeAssistantService
from tests.contract.houses import House
from tests.gates import ALLOW_ALL
from tests.real.homes import RealHome

RESTART_S = 120.0
"""How long a server may take to be there again on a machine that may be busy."""


@asynccontextmanager
async def a_real_gate(
    directory: Path,
    home: RealHome,
    policy: Any = ALLOW_ALL,
    *,
    token: str = "",
    name: str = "gate.db",
    **settings: Any,
) -> AsyncIterator[Gate]:
    """`settings` are those of `services.homeassistant`."""
    url = settings.pop("url", home.url)
    configured = HomeAssistantConfig(url, token or home.token, **settings)
    boss = Agent("boss", roles=("admin",))
    async with open_gate(policy, directory / name, agent=boss, home_assistant=configured) as gate:
        yield gate


def client_of(gate: Gate) -> HomeClient:
    [service] = [one for one in gate.services if isinstance(one, HomeAssistantService)]
    return service.client


def house_of(home: RealHome) -> House:
    return House.named(home)


async def done(gate: Gate, tool: str, **args: Any) -> Any:
    """The data of a call that must succeed."""
    outcome = await gate.call(tool, args)
    assert outcome.ok, outcome.error
    return outcome.data


async def call(gate: Gate, service: str, **args: Any) -> Outcome:
    """`ha_call_service` with both names in one."""
    domain, _, name = service.partition(".")
    return await gate.call("ha_call_service", {"domain": domain, "service": name, **args})


async def state_of(gate: Gate, entity_id: str) -> str:
    return str((await done(gate, "ha_get_state", entity_id=entity_id))["state"])


async def in_time(holds: Callable[[], Any]) -> None:
    """Until something holds that may take as long as a server takes to start."""
    async with asyncio.timeout(RESTART_S):
        while not holds():  # noqa: ASYNC110 -- what is waited for is another process
            await asyncio.sleep(0.02)

"""Gates before a simulated home."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from agent_gate import Agent, Gate, Outcome
from agent_gate.config import HomeAssistantConfig
from agent_gate.model.tool import Json
from agent_gate.services.home_assistant.client import HomeClient
from agent_gate.services.home_assistant.home import Home
from agent_gate.services.home_assistant.service import HomeAssistantService
from agent_gate.simulated_home import SimulatedHome, simulated_home
from tests.gates import ALLOW_ALL, a_gate

ADMIN = Agent("bot", roles=("admin",))


@asynccontextmanager
async def a_gate_at_home(
    directory: Path, policy: Any = ALLOW_ALL, *, token: str = "token", **options: Any
) -> AsyncIterator[tuple[Gate, SimulatedHome]]:
    async with simulated_home() as running:
        settings = HomeAssistantConfig(running.url, getattr(running, token))
        options = {"agent": ADMIN, "home_assistant": settings, **options}
        async with a_gate(directory, policy, **options) as gate:
            yield gate, running.home


def client_of(gate: Gate) -> HomeClient:
    [service] = [each for each in gate.services if isinstance(each, HomeAssistantService)]
    return service.client


def known_home(gate: Gate) -> Home:
    """What the gate knows of it."""
    return client_of(gate).home


async def call_service(gate: Gate, name: str, entity_id: Any = None, **args: Json) -> Outcome:
    """`light.turn_on` and so on."""
    domain, _, service = name.partition(".")
    named = {} if entity_id is None else {"entity_id": entity_id}
    return await gate.call("ha_call_service", {"domain": domain, "service": service, **named, **args})

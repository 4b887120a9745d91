"""Grants in a home: one call is granted by a press, and then another is made."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent_gate import Agent
from agent_gate.config import HomeAssistantConfig
from agent_gate.model.approval import GrantTerms
from agent_gate.model.errors import GateError
from agent_gate.model.outcome import Status
from agent_gate.simulated_home import simulated_home
from agent_gate.simulated_home.services import Call, Service
from tests.attacks.cases import Case
from tests.attacks.runner import CheckFailed
from tests.gates import ANNA, a_gate, outcome_of, pending

_BOT = Agent("bot", roles=("admin",))


async def play(case: Case) -> str:
    """Whether the second call passes by the grant; where nobody can give one, it cannot."""
    first, then = case.args["granted"], case.args["then"]
    policy = {"rules": [*case.policy.get("rules", ()), {"pattern": "*", "action": "ask"}]}
    async with simulated_home() as running:
        for service in case.args.get("services", ()):
            domain, _, name = service.partition(".")
            running.home.register(Service(domain, name, _nothing, takes_anything=True))
        settings = HomeAssistantConfig(running.url, running.token)
        with tempfile.TemporaryDirectory(prefix="attack-grant-") as folder:
            async with a_gate(Path(folder), policy, home_assistant=settings, agent=_BOT) as gate:
                asked = await pending(gate, *_call(first))
                given: dict[str, Any] = {"approve": True, "by": ANNA, "nonce": asked.nonce}
                try:
                    await gate.answer(asked.call_id, **given, grant=GrantTerms())
                except GateError:
                    await gate.answer(asked.call_id, **given)
                if (await outcome_of(gate, asked)).status is not Status.SUCCESS:
                    raise CheckFailed("what a person agreed to was not done")
                running.home.calls.clear()
                outcome = await gate.call(*_call(then), wait=False)
                if (outcome.status is Status.SUCCESS) != bool(running.home.calls):
                    raise CheckFailed(f"{outcome.status.value}, and {len(running.home.calls)} calls came to the home")
    return "allow" if outcome.status is Status.SUCCESS else "deny"


async def _nothing(_: Call) -> None: ...


def _call(told: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    return told["tool"], told["args"]

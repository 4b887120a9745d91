"""Calls to a simulated home through a whole gate, under a policy made of the plain fields of the case."""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent_gate import ConfigError, Gate, Outcome, open_gate
from agent_gate.config import HomeAssistantConfig
from agent_gate.model.outcome import Status
from agent_gate.services.home_assistant.service import HomeAssistantService
from agent_gate.simulated_home import SimulatedHome, simulated_home
from agent_gate.simulated_home.services import Call, Service
from tests.attacks.cases import Case
from tests.attacks.ha_homes import Plan, plan_of
from tests.attacks.runner import CheckFailed

_SHOWN = ("must_show", "must_contain", "output_must_contain")
_NOT_SHOWN = ("must_not_show", "must_not_contain", "output_must_not_contain")
_COUNTED = ("executions", "effects")
CHECKS = frozenset({*_SHOWN, *_NOT_SHOWN, *_COUNTED, "must_change", "must_not_change"})

_NAME = re.compile(r"[a-z_][a-z0-9_]*")
_TOO_OLD = (
    "extra keys not allowed @ data['target']['label_id']",
    "extra keys not allowed @ data['target']['floor_id']",
)
"""The gate has let it pass, and a home of the simulated age does not know such targets."""


def run(case: Case, root: Path) -> str:
    try:
        outcome, executions, changed = asyncio.run(_call(case, root))
    except ConfigError:
        return "error"
    if outcome.status is not Status.SUCCESS and (executions or changed):
        raise CheckFailed(f"{outcome.status.value}, and yet {executions} calls came to the home and changed {changed}")
    _check(case, outcome, executions, changed)
    if outcome.error and outcome.error.detail.startswith(_TOO_OLD):
        return "allow"
    return {Status.SUCCESS: "allow", Status.DENIED: "deny"}.get(outcome.status, "error")


async def _call(case: Case, root: Path) -> tuple[Outcome, int, set[str]]:
    plan = plan_of([step for step in case.setup if "ha_state" in step], case.args)
    home = plan.build()
    _offer(home, plan, case.args)
    before = {entity_id: (state.state, state.attributes) for entity_id, state in home.states.items()}
    with tempfile.TemporaryDirectory(prefix="attack-gate-") as folder:
        async with simulated_home(home) as running:
            settings = HomeAssistantConfig(running.url, running.token)
            where = {"working_dir": root, "home_assistant": settings}
            async with open_gate(_policy(case.policy), Path(folder) / "gate.db", **where) as gate:  # type: ignore[arg-type]
                _teach(gate, plan)
                home.calls.clear()
                outcome = await gate.call(case.tool.replace(".", "_"), dict(case.args))
    after = {entity_id: (state.state, state.attributes) for entity_id, state in home.states.items()}
    changed = {entity_id for entity_id in {*before, *after} if before.get(entity_id) != after.get(entity_id)}
    return outcome, len({made.context.id for made in home.calls}), changed


def _offer(home: SimulatedHome, plan: Plan, args: Mapping[str, Any]) -> None:
    """Every service that is named, also where this home has none of the kind: then it does nothing."""

    async def work(_: Call) -> None: ...

    called = str(args.get("domain")), str(args.get("service"))
    for domain, name in plan.services if plan.services is not None else {called}:
        if _NAME.fullmatch(domain) and _NAME.fullmatch(name) and (domain, name) not in home.services:
            home.register(Service(domain, name, work, takes_anything=True))


def _teach(gate: Gate, plan: Plan) -> None:
    """Labels and floors, which servers of the simulated age do not have."""
    service = next(each for each in gate.services if isinstance(each, HomeAssistantService))
    home = service.client.home
    home.learn(
        areas=[
            replace(area, floor_id=plan.floor_of.get(area.area_id), labels=tuple(plan.labels_of.get(area.area_id, ())))
            for area in home.areas.values()
        ],
        devices=[
            replace(device, labels=tuple(plan.labels_of.get(device.name, ()))) for device in home.devices.values()
        ],
    )
    # A case calls a device by a name of its own, which is not the id that the simulated home gives it.
    ids = {device.device_id: device.name for device in home.devices.values() if device.name in plan.devices}
    home.learn(
        devices=[
            replace(device, device_id=ids.get(device.device_id, device.device_id)) for device in home.devices.values()
        ],
        registry=[
            replace(entry, device_id=ids.get(entry.device_id or "", entry.device_id))
            for entry in home.registry.values()
        ],
    )


def _policy(fields: Mapping[str, Any]) -> dict[str, Any]:
    rules = [
        {key: rule[key] for key in ("pattern", "action", "description", "when") if key in rule}
        for rule in fields.get("rules", ())
    ]
    policy: dict[str, Any] = {"version": 1, "rules": rules}
    if fields.get("default") == "deny":
        policy["boundary"] = "deny_by_default"
    elif fields.get("default") == "allow":
        policy["defaults"] = [{"pattern": "*", "action": "allow"}]
    return policy


def _check(case: Case, outcome: Outcome, executions: int, changed: set[str]) -> None:
    told, check = str(outcome.to_json()), case.check
    for text in (text for name in _SHOWN for text in _texts(check.get(name))):
        if text not in told:
            raise CheckFailed(f"the answer does not show {text!r}: {told}")
    for text in (text for name in _NOT_SHOWN for text in _texts(check.get(name))):
        if text in told:
            raise CheckFailed(f"the answer shows {text!r}")
    for name in _COUNTED:
        if executions != check.get(name, executions):
            raise CheckFailed(f"expected {check[name]} calls, got {executions}")
    for entity_id in _texts(case.check.get("must_change")):
        if entity_id not in changed:
            raise CheckFailed(f"{entity_id} was not changed")
    for entity_id in _texts(case.check.get("must_not_change")):
        if entity_id in changed:
            raise CheckFailed(f"{entity_id} was changed")


def _texts(value: Any) -> list[str]:
    return [] if value is None else [value] if isinstance(value, str) else list(value)

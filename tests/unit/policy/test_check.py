"""Judging a call without a gate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from agent_gate.model.outcome import Status
from agent_gate.model.tool import Json, Mode
from agent_gate.model.verdict import Decision
from agent_gate.tools.check import Checked, check_call
from tests.unit.policy.judging import ALLOW, NOON, judge_of

ALLOWED: Mapping[str, Json] = {"rules": [ALLOW]}


def check(policy: Mapping[str, Json], tool: str, args: Mapping[str, Json] | None = None, **options: Any) -> Checked:
    return check_call(judge_of(policy), tool, args or {}, at=NOON, **options)


@pytest.mark.parametrize(("action", "status"), [("allow", "success"), ("ask", "pending_approval"), ("deny", "denied")])
def test_the_answer_is_the_outcome_without_the_act(action: str, status: str) -> None:
    checked = check({"rules": [{"pattern": "some_tool(1)", "action": action}]}, "some_tool", {"n": 1})
    outcome = checked.outcome.to_json()
    assert (outcome["status"], outcome["decision"], outcome["signatures"]) == (status, action, ["some_tool(1)"])
    assert (outcome["simulated"], outcome["reasons"][0]["layer"]) == (True, "rules")
    assert "data" not in outcome
    assert checked.verdict is not None
    assert checked.verdict.trace[0].layer == "rules"


@pytest.mark.parametrize(
    ("tool", "args", "code"),
    [
        ("t", {"n": float("nan")}, 2002),
        ("t", {"n": object()}, 2002),
        ("t", {"n": 2**70}, 2002),
        ("", {}, 2001),
        ("a(b", {}, 2001),
        ("x" * 300, {}, 2001),
        ("state.set", {"path": "a"}, 2002),
        ("ha_call_service", {"domain": "light"}, 2002),
        ("ha_call_service", {"domain": "Light", "service": "turn_on", "entity_id": "light.a"}, 2002),
        ("ha_call_service", {"domain": "light", "service": "turn_on", "target": {"area_id": "kitchen"}}, 2006),
    ],
)
def test_malformed_input_is_a_deny_with_its_error(tool: str, args: Mapping[str, Json], code: int) -> None:
    checked = check(ALLOWED, tool, args)
    assert checked.outcome.decision is Decision.DENY
    assert checked.outcome.error is not None
    assert (checked.outcome.status, checked.outcome.error.code, checked.verdict) == (Status.ERROR, code, None)
    assert "\n" not in str(checked.outcome.error)


def test_home_assistant_is_judged_without_a_home_assistant() -> None:
    policy = {"rules": [{"pattern": "ha_call_service(lock.*)", "action": "deny"}, ALLOW]}
    locked = {"domain": "homeassistant", "service": "turn_off", "entity_id": "lock.front"}
    assert check(policy, "ha_call_service", locked).outcome.decision is Decision.DENY
    lit = {"domain": "light", "service": "turn_on", "entity_id": "light.kitchen"}
    assert check(policy, "ha_call_service", lit).outcome.decision is Decision.ALLOW


def test_who_asks_and_how_is_part_of_the_question() -> None:
    policy = {"rules": [{**ALLOW, "when": "mode == 'interactive' and agent_id == 'bot' and project == 'home'"}]}
    given: dict[str, Any] = {"mode": Mode.INTERACTIVE, "agent_id": "bot", "project": "home"}
    assert check(policy, "t", **given).outcome.decision is Decision.ALLOW
    assert check(policy, "t", **given | {"project": "other"}).outcome.decision is Decision.ASK
    confirmed = {**ALLOWED, "declare": {"t": {"confirmation_required": True}}}
    assert check(confirmed, "t", confirmed=True).outcome.decision is Decision.ALLOW
    assert check(confirmed, "t").outcome.decision is Decision.DENY
    assert check(ALLOWED, "t", roles=("viewer",)).outcome.decision is Decision.DENY


def test_the_state_can_be_given() -> None:
    policy = {"rules": [{**ALLOW, "when": "get(state, 'open', False)"}]}
    assert check(policy, "t", state={"open": True}).outcome.decision is Decision.ALLOW
    assert check(policy, "t").outcome.decision is Decision.ASK

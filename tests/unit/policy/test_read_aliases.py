"""A deny of `state.get` holds for whatever else tells what is in the state."""

from __future__ import annotations

from typing import Any

import pytest

from agent_gate.model.verdict import Decision
from agent_gate.tools.check import check_call
from tests.unit.policy.judging import ALLOW, NOON, judge_of

DENIED = judge_of({"rules": [{"pattern": "state.get(/secret*)", "action": "deny"}, ALLOW]})
DENIED_WHOLLY = judge_of({"rules": [{"pattern": "state.get*", "action": "deny"}, ALLOW]})


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "copy", "from": "/secret", "path": "/mine"},
        {"op": "copy", "from": "/secret/deep", "path": "/mine"},
        {"op": "move", "from": "/secret", "path": "/mine"},
        {"op": "test", "path": "/secret", "value": "guess"},
    ],
)
def test_a_patch_that_tells_a_value_is_a_read_of_it(operation: dict[str, Any]) -> None:
    harmless = {"op": "add", "path": "/mine", "value": 1}
    checked = check_call(DENIED, "state.patch", {"patch": [harmless, operation]}, at=NOON)
    assert checked.outcome.decision is Decision.DENY
    assert check_call(DENIED, "state.patch", {"patch": [harmless]}, at=NOON).outcome.decision is Decision.ALLOW


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        ("state.at", {}),
        ("state.at", {"version": 0}),
        ("state.at", {"snapshot_id": "x"}),
        ("state.history", {}),
        ("state.history", {"limit": 1}),
        ("state.diff", {}),
        ("state.diff", {"from": 1, "to": 2}),
    ],
)
def test_earlier_states_are_the_state(tool: str, args: dict[str, Any]) -> None:
    checked = check_call(DENIED_WHOLLY, tool, args, at=NOON)
    assert checked.outcome.decision is Decision.DENY
    assert "state.get*" in str(checked.outcome.error)


def test_the_rule_of_every_policy_lets_nothing_but_the_own_record_pass() -> None:
    judge = judge_of({"boundary": "deny_by_default"})
    assert check_call(judge, "gate.read", {"path": "/results"}, at=NOON).outcome.decision is Decision.ALLOW
    for tool, args in (("gate.revert", {"call_id": "x"}), ("gate.readx", {"path": "/"}), ("state.at", {})):
        assert check_call(judge, tool, args, at=NOON).outcome.decision is Decision.DENY


def test_the_rule_of_every_policy_is_overruled_by_a_deny_and_not_by_an_ask() -> None:
    for action, expected in (("deny", Decision.DENY), ("ask", Decision.ALLOW)):
        judge = judge_of({"rules": [{"pattern": "*", "action": action}]})
        assert check_call(judge, "gate.read", {"path": "/results"}, at=NOON).outcome.decision is expected

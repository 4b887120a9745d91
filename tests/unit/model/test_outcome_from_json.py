"""An outcome that went over a wire is the outcome that was sent."""

from __future__ import annotations

import json

import pytest

from agent_gate.model.errors import Problem
from agent_gate.model.outcome import Outcome, Status
from agent_gate.model.verdict import Decision, Reason

FULL = Outcome(
    call_id="c",
    status=Status.SUCCESS,
    request_id="r",
    data={"a": [1, None]},
    message="done",
    error=Problem(1002, "detail", "suggestion", "decide"),
    signatures=("t(a)", "t(b)"),
    decision=Decision.ALLOW,
    reasons=(Reason("rules", Decision.ALLOW, "t(*)", "fine"),),
    simulated=True,
    state_version=3,
    state_diff=({"op": "add", "path": "/a", "value": 1},),
    snapshot_id="s",
    cost=1.5,
    started_at=1_772_625_600.25,
    ended_at=1_772_625_601.0,
    expires_at=1_772_626_500.0,
)


@pytest.mark.parametrize("outcome", [FULL, Outcome(call_id="c", status=Status.PENDING_APPROVAL)])
def test_what_is_read_is_what_was_written(outcome: Outcome) -> None:
    assert Outcome.from_json(json.loads(json.dumps(outcome.to_json()))) == outcome

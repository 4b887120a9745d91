"""The one JSON shape that every door answers with, and the exceptions it stands for."""

from __future__ import annotations

import pytest

from agent_gate.model.errors import GateError, PolicyDeniedError, Problem, ToolError
from agent_gate.model.outcome import Outcome, Status
from agent_gate.model.verdict import Decision, Reason


def test_a_full_outcome_has_every_field() -> None:
    outcome = Outcome(
        call_id="c",
        request_id="r",
        status=Status.ERROR,
        data={"x": 1},
        message="m",
        error=Problem(2003, "failed", "mend it", "perform"),
        signatures=("t(1)", "t(2)"),
        decision=Decision.ALLOW,
        reasons=(Reason("rules", Decision.ALLOW, "t*", "why"),),
        simulated=True,
        state_version=3,
        state_diff=({"op": "add", "path": "/x", "value": 1},),
        snapshot_id="s",
        cost=2.5,
        started_at=0,
        ended_at=1.5,
        expires_at=2,
    )
    assert outcome.to_json() == {
        "request_id": "r",
        "call_id": "c",
        "status": "error",
        "data": {"x": 1},
        "message": "m",
        "error": {
            "code": 2003,
            "name": "tool_failed",
            "stage": "perform",
            "detail": "failed",
            "suggestion": "mend it",
        },
        "signatures": ["t(1)", "t(2)"],
        "decision": "allow",
        "reasons": [{"layer": "rules", "rule": "t*", "text": "why"}],
        "simulated": True,
        "state_version": 3,
        "state_diff": [{"op": "add", "path": "/x", "value": 1}],
        "snapshot_id": "s",
        "cost": 2.5,
        "started_at": "1970-01-01T00:00:00.000000Z",
        "ended_at": "1970-01-01T00:00:01.500000Z",
        "expires_at": "1970-01-01T00:00:02.000000Z",
    }


def test_absent_fields_are_left_out_and_falsy_values_are_not_absent() -> None:
    assert Outcome(call_id="c", status=Status.SUCCESS).to_json() == {
        "request_id": "c",
        "call_id": "c",
        "status": "success",
    }
    fields = Outcome(call_id="c", status=Status.SUCCESS, data=0, state_version=0, state_diff=(), cost=0.0).to_json()
    assert (fields["data"], fields["state_version"], fields["state_diff"], fields["cost"]) == (0, 0, [], 0.0)


def test_the_statuses_are_those_of_the_interface() -> None:
    assert [status.value for status in Status] == [
        "success",
        "denied",
        "error",
        "expired",
        "unknown",
        "pending_approval",
    ]


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (Status.DENIED, 1013, PolicyDeniedError),
        (Status.EXPIRED, 1016, PolicyDeniedError),
        (Status.ERROR, 2002, ToolError),
        (Status.UNKNOWN, 2007, ToolError),
    ],
)
def test_what_is_no_success_raises_the_exception_of_its_code_also_where_the_reason_was_erased(
    status: Status, code: int, kind: type[GateError]
) -> None:
    with pytest.raises(kind) as raised:
        Outcome(call_id="c", status=status, error=Problem(code, "why")).raise_for_status()
    assert raised.value.code == code
    with pytest.raises(kind):
        Outcome(call_id="c", status=status, message="erased").raise_for_status()


@pytest.mark.parametrize("status", [Status.SUCCESS, Status.PENDING_APPROVAL])
def test_a_success_and_an_open_question_are_returned(status: Status) -> None:
    outcome = Outcome(call_id="c", status=status)
    assert outcome.raise_for_status() is outcome
    assert outcome.ok == (status is Status.SUCCESS)

"""Codes of problems as errors of JSON-RPC."""

from __future__ import annotations

import pytest

from agent_gate.doors.codes import Rpc, rpc_of_outcome, rpc_of_problem
from agent_gate.model.errors import NAMES, Problem
from agent_gate.model.outcome import Outcome, Status

SPECIAL = {
    1012: Rpc.TOO_MANY,
    1015: Rpc.DENIED_BY_PERSON,
    1016: Rpc.EXPIRED,
    6002: Rpc.NOT_AUTHENTICATED,
    6003: Rpc.DENIED,
}
FAMILIES = {1: Rpc.DENIED, 2: Rpc.FAILED, 3: Rpc.INVALID_PARAMS, 4: Rpc.FAILED, 5: Rpc.FAILED, 6: Rpc.FAILED}


@pytest.mark.parametrize("code", NAMES)
def test_every_problem_has_its_error(code: int) -> None:
    assert rpc_of_problem(Problem(code, "x")) is SPECIAL.get(code, FAMILIES[code // 1000])


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (Status.SUCCESS, None),
        (Status.PENDING_APPROVAL, None),
        (Status.DENIED, -32003),
        (Status.EXPIRED, -32002),
        (Status.ERROR, -32004),
        (Status.UNKNOWN, -32004),
    ],
)
def test_an_outcome_whose_reason_was_erased_still_says_how_it_ended(status: Status, code: int | None) -> None:
    assert rpc_of_outcome(Outcome(call_id="c", status=status)) == code

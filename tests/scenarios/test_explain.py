"""What the gate would say, and what an approval would lead to: told without anything being done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_gate.model.call import CallRequest
from agent_gate.model.outcome import Status
from agent_gate.model.verdict import Decision
from tests.gates import ALLOW_ALL, ASK_ALL, a_gate, code_of, counter, entries, sender

DENY_ALL = {"rules": [{"pattern": "*", "action": "deny"}]}


@pytest.mark.parametrize(
    ("policy", "decision", "status"),
    [
        (ALLOW_ALL, Decision.ALLOW, Status.SUCCESS),
        (ASK_ALL, Decision.ASK, Status.PENDING_APPROVAL),
        (DENY_ALL, Decision.DENY, Status.DENIED),
    ],
)
async def test_an_explanation_has_the_verdict_and_every_layer_s_answer(
    tmp_path: Path, policy: Any, decision: Decision, status: Status
) -> None:
    acts: list[str] = []
    async with a_gate(tmp_path, policy, sender(acts), counter()) as gate:
        before = entries(gate)
        for name in ("mail.send", "counter.add"):
            outcome, verdict = await gate.explain(CallRequest(gate.agent, name, {}))
            assert verdict is not None
            assert (verdict.decision, outcome.status, outcome.simulated) == (decision, status, True)
            assert {"rules", "roles", "approvals", "limits"} <= {reason.layer for reason in verdict.trace}
            assert outcome.state_diff is None
        assert (entries(gate), acts) == (before, [])


async def test_what_would_not_be_judged_has_no_verdict(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOW_ALL) as gate:
        for request, code in (
            (CallRequest(gate.agent, "no.such", {}), 2001),
            (CallRequest(gate.agent, "state.get", {"path": 1}), 2002),
            (CallRequest(gate.agent, "state.get", {}, project="elsewhere"), 6003),
        ):
            outcome, verdict = await gate.explain(request)
            assert (code_of(outcome), verdict) == (code, None)


async def test_what_an_approval_would_lead_to_is_shown_as_if_it_were_given(tmp_path: Path) -> None:
    acts: list[str] = []
    async with a_gate(tmp_path, ASK_ALL, sender(acts), counter()) as gate:
        before = entries(gate)
        asked, _ = await gate.simulate(CallRequest(gate.agent, "counter.add", {}))
        assert (asked.status, asked.state_diff) == (Status.PENDING_APPROVAL, None)
        agreed, simulated = await gate.simulate(CallRequest(gate.agent, "counter.add", {}), as_if_agreed=True)
        assert (agreed.status, agreed.decision) == (Status.SUCCESS, Decision.ASK)
        assert agreed.state_diff == ({"op": "add", "path": "/n", "value": 1},)
        assert simulated is not None
        sent, _ = await gate.simulate(CallRequest(gate.agent, "mail.send", {}), as_if_agreed=True)
        assert (sent.status, entries(gate), acts) == (Status.SUCCESS, before, [])


async def test_no_approval_is_imagined_against_a_deny(tmp_path: Path) -> None:
    async with a_gate(tmp_path, DENY_ALL, counter()) as gate:
        outcome, _ = await gate.simulate(CallRequest(gate.agent, "counter.add", {}), as_if_agreed=True)
    assert (outcome.status, outcome.state_diff) == (Status.DENIED, None)

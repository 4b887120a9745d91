"""Decide: a pure function of the bound call, its facts and the policy says whether it may be done."""

from __future__ import annotations

from functools import partial

from agent_gate.model.codec import weight
from agent_gate.model.errors import GateError, Problem
from agent_gate.model.limits import JUDGED_ON_LOOP_BYTES_MAX
from agent_gate.model.verdict import Verdict
from agent_gate.policy.judge import Judge
from agent_gate.ports import Prepared
from agent_gate.toolkit.threads import JUDGING


def decide(prepared: Prepared, judge: Judge) -> Verdict:
    return judge.decide(prepared.call, prepared.facts, prepared.registered.declaration)


async def decided(prepared: Prepared, judge: Judge) -> Verdict | Problem:
    """The same, in a thread where the arguments are large: every word of a command may be a path of its own."""
    if weight(prepared.call.args, JUDGED_ON_LOOP_BYTES_MAX) <= JUDGED_ON_LOOP_BYTES_MAX:
        return decide(prepared, judge)
    try:
        verdict: Verdict = await JUDGING.run(partial(decide, prepared, judge), {})
    except GateError as error:
        return error.problem.at("decide")
    return verdict

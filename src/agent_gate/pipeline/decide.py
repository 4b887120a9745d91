"""Decide: a pure function of the bound call, its facts and the policy says whether it may be done."""

from __future__ import annotations

from functools import partial

from agent_gate.model.bounds import JUDGED_ON_LOOP_BYTES_MAX
from agent_gate.model.codec import weight
from agent_gate.model.errors import GateError, Problem
from agent_gate.policy.judge import Judge
from agent_gate.ports.tools import Judged, Prepared
from agent_gate.toolkit.threads import JUDGING


async def decide(prepared: Prepared, judge: Judge) -> Judged | Problem:
    """Judge the call, in a thread where its arguments are large: every word of a command may be a path of its own."""
    call, facts, tool = prepared.call, prepared.facts, prepared.registered.declaration
    if weight(call.args, JUDGED_ON_LOOP_BYTES_MAX) <= JUDGED_ON_LOOP_BYTES_MAX:
        return Judged(prepared, judge.decide(call, facts, tool))
    try:
        return Judged(prepared, await JUDGING.run(partial(judge.decide, call, facts, tool), {}))
    except GateError as error:
        return error.problem.at("decide")

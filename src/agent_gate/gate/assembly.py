"""A gate put together: its stages, and what drives a call through them."""

from __future__ import annotations

from agent_gate.gate.asking import Asker
from agent_gate.gate.bounds import DEFAULT_BOUNDS, GateBounds
from agent_gate.gate.driver import Driver
from agent_gate.gate.gate import Gate
from agent_gate.gate.in_force import InForce
from agent_gate.gate.proposals import Proposals
from agent_gate.gate.recorder import Recorder
from agent_gate.gate.simulation import Simulator
from agent_gate.gate.tasks import Tasks
from agent_gate.model.call import Agent
from agent_gate.pipeline.admit import Admission
from agent_gate.pipeline.bind import Binder
from agent_gate.pipeline.effects import Effects
from agent_gate.pipeline.hold import Holder
from agent_gate.pipeline.perform import Performer
from agent_gate.pipeline.refusal_counts import RefusalCounts
from agent_gate.pipeline.settle import Settler
from agent_gate.pipeline.stages import Stages
from agent_gate.policy.judge import Judge
from agent_gate.ports.ledger import Ledger
from agent_gate.ports.surroundings import Clock, Ids, Secrets
from agent_gate.ports.tools import Tools
from agent_gate.ports.watching import Notifier


def assemble(
    *,
    judge: Judge,
    tools: Tools,
    ledger: Ledger,
    clock: Clock,
    ids: Ids,
    secrets: Secrets,
    agent: Agent,
    notifier: Notifier | None,
    can_ask: bool,
    approval_timeout_s: float,
    bounds: GateBounds = DEFAULT_BOUNDS,
) -> Gate:
    """`agent` is who calls where nobody else is named; `can_ask` where people can be reached, by whichever channel."""
    stages = Stages(
        Admission(ledger, clock, secrets),
        Binder(tools, ledger, clock, secrets, can_ask),
        Holder(ledger, clock, ids, notifier, approval_timeout_s, tools, bounds.notify_timeout_s),
        Performer(ledger, clock, ids),
        Settler(ledger, clock, ids),
        Effects(ledger, clock, ids, bounds.effect_timeout_s),
        RefusalCounts(ledger, clock, ids, bounds.refusal_summary_s),
    )
    in_force, tasks = InForce(judge), Tasks()
    asker = Asker(stages.holder, ledger, clock)
    recorder = Recorder(stages, ledger, clock, tasks, bounds.join_poll_s)
    proposals = Proposals(stages.performer, in_force, stages.holder, asker)
    return Gate(
        driver=Driver(stages, in_force, asker, recorder, proposals, ledger, clock),
        simulator=Simulator(stages, in_force, proposals, ledger, clock),
        recorder=recorder,
        stages=stages,
        in_force=in_force,
        tasks=tasks,
        tools=tools,
        ledger=ledger,
        clock=clock,
        ids=ids,
        secrets=secrets,
        agent=agent,
    )

"""Recorded runs, looked at again through the gate that holds them: replayed, and verified."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from agent_gate.config import load_policy
from agent_gate.gate.gate import Gate
from agent_gate.history.findings import Report
from agent_gate.history.replays import Replayed
from agent_gate.history.replays import replay_run as replay_recorded
from agent_gate.history.verify import verify
from agent_gate.model.policy import Policy
from agent_gate.model.tool import Json
from agent_gate.ports.tools import Transition
from agent_gate.tools.catalogue import BUILTIN


async def replay_run(
    gate: Gate, run_id: str, policy: Policy | str | Path | Mapping[str, Json] | None = None
) -> Replayed:
    """Return recorded results again, with each verdict and pure step recomputed; `changes` is what another policy says.

    Nothing is executed, and what does not come out as recorded is in `mismatches`. A beginning of the id is enough.
    """
    tools = {**BUILTIN, **{one.declaration.name: one.declaration for one in gate.tools.all()}}
    other = policy if policy is None or isinstance(policy, Policy) else load_policy(policy, tools=tools)

    def find(name: str) -> Transition | None:
        registered = gate.tools.find(name)
        return registered.transition if registered else None

    return await replay_recorded(
        gate.ledger, run_id, clock=gate.clock, ids=gate.ids, find=find, other=other, tools=tools
    )


async def verify_run(gate: Gate, run_id: str, *, anchor: str | Path | None = None) -> Report:
    """Check that the entries of a run, and the chains they stand in, still are what was written.

    `anchor` names a copy of the anchor that was kept elsewhere.
    """
    return await asyncio.to_thread(verify, gate.ledger.storage, run_id=run_id, anchor=anchor)

"""Page of the gate's health: its ledger, its policy, its tools, who is there; and the verification of everything."""

from __future__ import annotations

import asyncio

from starlette.responses import Response

from agent_gate.doors.console.frame import Visit
from agent_gate.doors.health import connections
from agent_gate.history import events, projects
from agent_gate.history.findings import Report
from agent_gate.history.verify import verify as verify_ledger

FINDINGS_SHOWN_MAX = 50
EVENTS_SHOWN_MAX = 20


async def show(visit: Visit) -> Response:
    return await _page(visit)


async def verify(visit: Visit) -> Response:
    """Every chain, every body and the anchor; it may take a while on a large ledger, so one runs at a time."""
    async with visit.console.verifying:
        report = await asyncio.to_thread(verify_ledger, visit.context.gate.ledger.storage)
    return await _page(visit, report)


async def _page(visit: Visit, report: Report | None = None) -> Response:
    context = visit.context
    return await visit.page(
        "health.html",
        report=report,
        findings_max=FINDINGS_SHOWN_MAX,
        totals=await visit.console.read(lambda reader: reader.totals()),
        ledger_mb=context.gate.ledger.storage.size_bytes() / 1_048_576,
        events=await visit.console.read(events.last_events, EVENTS_SHOWN_MAX),
        projects=await visit.console.read(projects.list_projects),
        policy_hash=context.gate.judge.policy_hash,
        rules=len(context.gate.judge.policy.rules),
        sessions=len(visit.console.sessions),
        agents=list(context.identities.agents.values()),
        approvers=list(context.identities.approvers.values()),
        tools=sorted((registered.declaration for registered in context.gate.tools.all()), key=lambda one: one.name),
        is_closing=context.closing.is_set(),
        connections=await connections(context),
    )

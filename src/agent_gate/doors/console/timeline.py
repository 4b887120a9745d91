"""The timeline: how calls ended, with filters, search and pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from agent_gate.doors.console.frame import Visit, address
from agent_gate.history import projects, query
from agent_gate.history.query import AuditLine
from agent_gate.history.readings import TookTooLongError
from agent_gate.model.bounds import CONSOLE_ROWS_MAX
from agent_gate.model.errors import GateError, Problem, ToolError
from agent_gate.ports.reading import Reader

FILTERS = ("agent", "tool", "status", "project", "since", "text")
SINCE = (("", "any time"), ("1h", "the last hour"), ("24h", "the last day"), ("7d", "the last week"))


@dataclass(frozen=True, slots=True)
class Found:
    lines: list[AuditLine]
    older: str = ""
    """Address at which the list goes on."""


async def show(visit: Visit) -> Response:
    chosen = {name: visit.asked(name)[:200] for name in FILTERS}
    found, problem, within_s = Found([]), None, visit.context.bounds.console_search_s
    try:
        found = await visit.context.readings.ask(
            lambda reader: _look(reader, visit.now, chosen, visit.asked("before")), within_s
        )
    except TookTooLongError:
        problem = Problem(2002, f"the search took longer than {within_s:.0f} s", "choose a shorter time, or an agent")
    except GateError as error:
        problem = error.problem
    return await visit.page(
        "timeline.html",
        400 if problem else 200,
        found=found,
        problem=problem,
        chosen=chosen,
        filtered=any(chosen.values()),
        outcomes=query.OUTCOMES,
        since=SINCE if chosen["since"] in dict(SINCE) else (*SINCE, (chosen["since"], chosen["since"])),
        agents=sorted(visit.context.identities.agents),
        projects=[one.name for one in await visit.console.read(projects.list_projects)],
        tools=sorted(registered.declaration.name for registered in visit.context.gate.tools.all()),
        older=address("timeline", **chosen, before=found.older) if found.older else "",
    )


def _look(reader: Reader, now: float, chosen: dict[str, str], before: str) -> Found:
    wanted: dict[str, Any] = {name: value for name, value in chosen.items() if value}
    if before:
        wanted["before"] = _place(before)
    lines = query.audit(reader, now=now, limit=CONSOLE_ROWS_MAX + 1, **wanted)
    shown = lines[:CONSOLE_ROWS_MAX]
    return Found(shown, f"{shown[-1].project}:{shown[-1].seq}" if len(lines) > len(shown) else "")


def _place(text: str) -> tuple[str, int]:
    project, _, seq = text[:200].rpartition(":")
    if not project or not seq.isascii() or not seq.isdigit() or len(seq) > 18:
        raise ToolError("there is no such page", code=2002, suggestion="begin at the newest entries")
    return project, int(seq)

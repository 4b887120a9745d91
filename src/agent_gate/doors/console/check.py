"""Trying a call against the policy in force: what the gate would say, and what each layer said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from agent_gate.doors.console.frame import Visit
from agent_gate.history import projects
from agent_gate.model.call import Agent, CallRequest
from agent_gate.model.codec import CodecError, parse
from agent_gate.model.errors import Problem
from agent_gate.model.outcome import Outcome
from agent_gate.model.tool import Json, Mode
from agent_gate.model.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Tried:
    outcome: Outcome
    verdict: Verdict | None


async def show(visit: Visit) -> Response:
    return await _page(visit, dict.fromkeys(("agent", "tool", "project", "mode"), "") | {"args": "{}"})


async def take(visit: Visit) -> Response:
    wish = {name: visit.form.get(name, "").strip() for name in ("agent", "tool", "project", "mode", "args")}
    args = _arguments(wish["args"])
    if isinstance(args, Problem):
        return await _page(visit, wish, problem=args)
    agent = _agent(visit, wish["agent"])
    if agent is None:
        return await _page(visit, wish, problem=Problem(2002, f"there is no agent `{wish['agent'][:100]}`"))
    mode = Mode(wish["mode"]) if wish["mode"] in {mode.value for mode in Mode} else None
    project = wish["project"] or agent.projects[0]
    confirmed = visit.form.get("confirmed") == "yes"
    request = CallRequest(agent, wish["tool"], args, project, confirmed=confirmed, mode=mode)
    outcome, verdict = await visit.context.gate.explain(request)
    return await _page(visit, wish, tried=Tried(outcome, verdict), confirmed=confirmed)


def _agent(visit: Visit, name: str) -> Agent | None:
    """The agent as the configuration knows it, whose limits a trial does not use up."""
    agents = visit.context.identities.agents
    found = agents.get(name) if name else next(iter(agents.values()), Agent("nobody", projects=("*",)))
    return found and Agent(found.id, found.roles, found.projects, found.mode, found.owner)


def _arguments(text: str) -> Mapping[str, Json] | Problem:
    try:
        args = parse(text or "{}")
    except CodecError as error:
        return Problem(2002, f"the arguments are {error}", 'write an object such as {"path": "/lights"}')
    if not isinstance(args, dict):
        return Problem(2002, "the arguments are not an object", 'write an object such as {"path": "/lights"}')
    return args


async def _page(
    visit: Visit,
    wish: Mapping[str, str],
    tried: Tried | None = None,
    problem: Problem | None = None,
    confirmed: bool = False,
) -> Response:
    fields: dict[str, Any] = {
        "agents": list(visit.context.identities.agents.values()),
        "confirmed": confirmed,
        "modes": [mode.value for mode in Mode],
        "policy_hash": visit.context.gate.judge.policy_hash,
        "problem": problem,
        "projects": [one.name for one in await visit.console.read(projects.list_projects)],
        "tools": sorted(
            (registered.declaration for registered in visit.context.gate.tools.all()), key=lambda one: one.name
        ),
        "tried": tried,
        "wish": wish,
    }
    return await visit.page("check.html", 400 if problem else 200, **fields)

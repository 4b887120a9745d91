"""A call to be judged, with everything ordinary that a test does not say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent_gate.config import load_policy
from agent_gate.model.call import NO_USAGE, Agent, BoundCall, CallRequest, Facts, Usage
from agent_gate.model.tool import Effect, Json, Mode, Risk, ToolDeclaration
from agent_gate.model.verdict import Verdict
from agent_gate.policy.judge import Judge
from agent_gate.tools.catalogue import BUILTIN

NOON = 1_772_625_600.0
"""Wednesday, 4 March 2026, 12:00 in UTC."""

ALLOW: Mapping[str, Json] = {"pattern": "*", "action": "allow"}


def tool(name: str = "t", **fields: Any) -> ToolDeclaration:
    """Harmless, so that no layer but the one under test has anything to say."""
    given: dict[str, Any] = {"effect": "read", "risk": "low", "cost": 0} | fields
    given["effect"], given["risk"] = Effect(given["effect"]), Risk(given["risk"])
    known = BUILTIN.get(name)
    brought: dict[str, Any] = {"guard": known.guard, "reach": known.reach, "looks": known.looks} if known else {}
    return ToolDeclaration(name, **given, **brought)


def bound_call(
    declaration: ToolDeclaration,
    signatures: Sequence[str] = ("t(a)",),
    args: Mapping[str, Json] | None = None,
    run_id: str | None = None,
    aliases: Sequence[str] = (),
) -> BoundCall:
    request = CallRequest(Agent("bot"), declaration.name, args or {}, run_id=run_id)
    return BoundCall("call", request, args or {}, args or {}, tuple(signatures), "hash", aliases=tuple(aliases))


def facts(**fields: Any) -> Facts:
    ordinary: dict[str, Any] = {
        "at": NOON,
        "mode": Mode.ASSISTED,
        "roles": ("operator",),
        "confirmed": False,
        "policy_hash": "",
        "state": {},
    }
    return Facts(**ordinary | fields)


def judge_of(policy: Mapping[str, Json]) -> Judge:
    return Judge(load_policy(policy))


def judged(
    policy: Mapping[str, Json],
    declaration: ToolDeclaration | None = None,
    *signatures: str,
    args: Mapping[str, Json] | None = None,
    run_id: str | None = None,
    aliases: Sequence[str] = (),
    usage: Usage | None = None,
    **fields: Any,
) -> Verdict:
    """The verdict on one call under a policy; other fields are those of the facts."""
    declaration = declaration or tool()
    bound = bound_call(declaration, signatures or (f"{declaration.name}(a)",), args, run_id, aliases)
    return judge_of(policy).decide(bound, facts(usage=usage or NO_USAGE, **fields), declaration)


def code(verdict: Verdict) -> int | None:
    return verdict.problem.code if verdict.problem else None


def answers(verdict: Verdict) -> dict[str, str]:
    """What each layer that spoke said."""
    return {reason.layer: reason.decision.value for reason in verdict.trace if reason.decision is not None}

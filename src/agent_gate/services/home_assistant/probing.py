"""Calls that name what is not there: where a rule denies them anyway, nobody learns by them what is."""

from __future__ import annotations

from collections.abc import Mapping

from agent_gate.model.call import BoundCall, CallRequest, Facts
from agent_gate.model.errors import ToolError
from agent_gate.model.tool import Json
from agent_gate.model.verdict import Decision
from agent_gate.policy.encoding import ArgumentError
from agent_gate.policy.judge import Judge
from agent_gate.ports.surroundings import Clock
from agent_gate.ports.tools import Binding
from agent_gate.tools.home_assistant.declarations import HA_CALL_SERVICE
from agent_gate.tools.home_assistant.signatures import ServiceCall, aliases_of_service, named_in


def binding_of_unknown(
    error: ToolError, request: CallRequest, args: Mapping[str, Json], judge: Judge, clock: Clock
) -> Binding:
    """A binding by the names as they are written, if a rule denies those; otherwise the error itself."""
    signatures, aliases = _as_written(args)
    if error.code != 2002 or not signatures:
        raise error
    call = BoundCall("", request, args, args, signatures, "", aliases=aliases)
    facts = Facts(clock.now(), request.agent.mode, request.agent.roles, request.confirmed, "")
    trace = judge.decide(call, facts, HA_CALL_SERVICE).trace
    if not any(reason.layer == "rules" and reason.decision is Decision.DENY for reason in trace):
        raise error

    async def act(_: BoundCall) -> Json:
        raise error

    return Binding(signatures, act=act, aliases=aliases)


def _as_written(args: Mapping[str, Json]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Signatures and aliases; none where the arguments are no call at all."""
    try:
        named = named_in(args)
        return ServiceCall(named.domain, named.service, named.entities).signatures, aliases_of_service(named)
    except ArgumentError:
        return (), ()

"""Identity of a request's sender: the credential as it came, and what later policies are told of it."""

from __future__ import annotations

from agent_gate.chain.context import RequestContext
from agent_gate.chain.instruction import Instruction, RemoveHeader, SetState
from agent_gate.chain.policy import PolicyResult
from agent_gate.model.tool import Json

IDENTITY = "identity"
"""The key of the state under which `api_key` and `jwt` say who it is."""


def credential(context: RequestContext, header: str, scheme: str) -> str | None:
    """The one credential in a header; None where there is none, more than one, or one of another scheme."""
    values = context.headers.all(header)
    if len(values) != 1:
        return None
    if not scheme:
        return values[0] or None
    given, _, rest = values[0].partition(" ")
    return rest.strip() or None if given.lower() == scheme.lower() else None


def identified(identity: dict[str, Json], header: str, *, forward: bool) -> PolicyResult:
    """The credential goes no further unless it is asked to: nobody behind the chain has a use for it."""
    told: tuple[Instruction, ...] = (SetState(IDENTITY, identity),)
    return PolicyResult(instructions=told if forward else (*told, RemoveHeader(header)))


def identity_of(context: RequestContext) -> str | None:
    """The name under which an earlier policy knows the caller."""
    identity = context.state.get(IDENTITY)
    name = identity.get("id") if isinstance(identity, dict) else None
    return name if isinstance(name, str) and name else None

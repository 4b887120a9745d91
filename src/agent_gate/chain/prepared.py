"""A chain made ready: policies found, metadata checked, before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from agent_gate.chain.context import Phase
from agent_gate.chain.faults import InvalidRequest
from agent_gate.chain.policy import Policy
from agent_gate.chain.registry import Registered, Registry
from agent_gate.model.bounds import CHAIN_POLICIES_MAX
from agent_gate.model.tool import Json


class OnFailure(Enum):
    DENY = "deny"
    CONTINUE = "continue"
    SKIP_REMAINING = "skip_remaining"


@dataclass(frozen=True, slots=True)
class PolicyRef:
    """One step as a chain names it."""

    name: str
    metadata: Mapping[str, Json] = field(default_factory=dict, repr=False)
    on_failure: str = "deny"
    version: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    name: str
    policy: Policy[Any] | None
    """None: nobody knows it; what becomes of that is decided when its turn comes."""
    settings: Any = field(default=None, repr=False)
    on_failure: OnFailure = OnFailure.DENY

    @property
    def required(self) -> bool:
        return self.on_failure is OnFailure.DENY


@dataclass(frozen=True, slots=True)
class Chain:
    """Good for any number of requests, one after the other or at once."""

    phase: Phase
    steps: tuple[Step, ...]


def prepare(refs: Sequence[PolicyRef], phase: Phase, registry: Registry, *, allow_empty: bool = False) -> Chain:
    """InvalidRequest where the chain is empty, too long, or a policy of it cannot be used so."""
    if not refs and not allow_empty:
        raise InvalidRequest("the chain is empty", suggestion="name a policy, or set allow_empty_chain: true")
    if len(refs) > CHAIN_POLICIES_MAX:
        raise InvalidRequest(f"the chain has more than {CHAIN_POLICIES_MAX} policies", suggestion="shorten it")
    return Chain(phase, tuple(_step(ref, phase, registry) for ref in refs))


def in_phase(refs: Sequence[PolicyRef], phase: Phase, registry: Registry) -> list[PolicyRef]:
    """Those of a chain for both phases that work in this one; an unknown policy is kept, so that it is noticed."""
    kept = []
    for ref in refs:
        found = registry.find(ref.name, ref.version)
        if found is None or phase in _phases(ref, found):
            kept.append(ref)
    return kept


def _step(ref: PolicyRef, phase: Phase, registry: Registry) -> Step:
    on_failure = _on_failure(ref)
    found = registry.find(ref.name, ref.version)
    if found is None:
        return Step(ref.name, None, None, on_failure)
    if phase not in _phases(ref, found):
        raise InvalidRequest(
            f"policy `{ref.name}` does not work in the {phase.value} phase, or its metadata name another one",
            suggestion="move it to a chain of its phase",
        )
    try:
        settings = found.policy.prepare(ref.metadata)
    except ValueError as error:
        raise _misfit(ref, str(error)) from None
    return Step(ref.name, found.policy, settings, on_failure)


def _on_failure(ref: PolicyRef) -> OnFailure:
    try:
        return OnFailure(ref.on_failure or "deny")
    except ValueError:
        raise InvalidRequest(
            f"on_failure of policy `{ref.name}` is {ref.on_failure!a}",
            suggestion="use deny, continue or skip_remaining",
        ) from None


def _phases(ref: PolicyRef, found: Registered) -> frozenset[Phase]:
    complaint = found.complaint(ref.metadata)
    if complaint is not None:
        raise _misfit(ref, complaint)
    return found.policy.phases_with(ref.metadata)


def _misfit(ref: PolicyRef, complaint: str) -> InvalidRequest:
    return InvalidRequest(f"metadata of policy `{ref.name}`: {complaint}", suggestion="see the policy's schema")

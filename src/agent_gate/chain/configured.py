"""The chains of a configuration: checked where they are written, and made ready to run in both phases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from agent_gate.chain.accumulator import Response
from agent_gate.chain.builtin import builtin_policies
from agent_gate.chain.context import Phase, RequestContext
from agent_gate.chain.executor import Executor
from agent_gate.chain.faults import InvalidRequest
from agent_gate.chain.policy import REQUEST_PHASE, Policy
from agent_gate.chain.prepared import Chain, PolicyRef, in_phase, prepare
from agent_gate.chain.registry import Registry, installed
from agent_gate.config.coercion import coerce
from agent_gate.config.config_checks import OWN_CHAINS
from agent_gate.config.places import Field, mapping_at, mappings_at, shown
from agent_gate.config.problems import Problems
from agent_gate.config.settings import ChainPolicyConfig
from agent_gate.model.errors import ConfigError
from agent_gate.model.tool import Json
from agent_gate.ports.judging import HttpRequest, RequestAllowed, RequestDenied, RequestHeld, RequestJudge
from agent_gate.ports.surroundings import Clock

Policies: TypeAlias = Callable[[], Iterable[Policy[Any]]]
API, OUTBOUND = OWN_CHAINS
"""The chains that the gate itself uses: for requests to its own doors, and for those that tools send."""


@dataclass(frozen=True, slots=True)
class ConfiguredChain:
    """One chain, good for any number of messages."""

    executor: Executor
    request: Chain
    response: Chain

    async def run(self, context: RequestContext) -> Response:
        return await self.executor.run(self.request if context.phase is Phase.REQUEST else self.response, context)


def refs_of(steps: Iterable[ChainPolicyConfig]) -> list[PolicyRef]:
    return [PolicyRef(step.name, step.metadata, step.on_failure, step.version) for step in steps]


def configured(name: str, refs: Sequence[PolicyRef], registry: Registry, executor: Executor) -> ConfiguredChain:
    """ConfigError where a policy cannot be used so."""
    try:
        made = [prepare(in_phase(refs, phase, registry), phase, registry, allow_empty=True) for phase in Phase]
    except InvalidRequest as error:
        raise ConfigError(f"chains.{name}: {error.problem.detail}", suggestion=error.problem.suggestion) from None
    for step in (*made[0].steps, *made[1].steps):
        if step.policy is not None:
            step.policy.adopt(step.settings)
    return ConfiguredChain(executor, made[0], made[1])


def registry_of(
    configs: Mapping[str, Mapping[str, Json]],
    clock: Clock,
    judge: RequestJudge | None = None,
    theirs: Policies = installed,
) -> Registry:
    """Register every policy there is, ours and `theirs` of other packages, each with its section of `policies`."""
    registry = Registry()
    for policy in (*builtin_policies(clock, judge), *theirs()):
        registry.register(policy, configs.get(policy.name))
    return registry


class NobodyAsked:
    """Judge nothing: only names and metadata of policies are looked at."""

    async def judge_request(self, request: HttpRequest) -> RequestAllowed | RequestDenied | RequestHeld:
        raise AssertionError(f"nothing is judged here: {request.signature}")

    async def health_check(self) -> None:
        raise AssertionError("nobody asks how this is")


def check_chains(value: Json, problems: Problems, clock: Clock, theirs: Policies = installed) -> None:
    """Adds what is wrong in a config.yaml with `policies` and with the steps of every chain; the shape is checked."""
    chains, configs = mapping_at(value, "chains"), mapping_at(value, "policies")
    if not chains and not configs:
        return
    registry = _checked_registry(configs, problems, clock, theirs)
    unknown_is_wrong = mapping_at(value, "policy_agent").get("fail_on_unknown", True) is not False
    for name in chains:
        for place, step in mappings_at(value, "chains", name):
            if not any(problems.blames((*place, key)) for key in ("name", "metadata", "version")):
                _check_step(place, step, registry, unknown_is_wrong, problems)


def _checked_registry(configs: Mapping[str, Any], problems: Problems, clock: Clock, theirs: Policies) -> Registry:
    """Every policy but those whose section is wrong."""
    registry = Registry()
    for policy in (*builtin_policies(clock, NobodyAsked()), *theirs()):
        if problems.blames(("policies", policy.name)):
            continue
        try:
            registry.register(policy, configs.get(policy.name))
        except ConfigError as error:
            problems.add(("policies", policy.name), error.problem.detail)
    known = sorted(policy.name for policy in registry.policies())
    for name in configs:
        if name not in known and not problems.blames(("policies", name)):
            problems.add(("policies", name), f"no policy is called {shown(name)}; known are {', '.join(known)}")
    return registry


def _check_step(
    place: Field, step: Mapping[str, Any], registry: Registry, unknown_is_wrong: bool, problems: Problems
) -> None:
    name, version, metadata = step.get("name"), step.get("version", ""), step.get("metadata", {})
    if not isinstance(name, str) or not isinstance(version, str) or not isinstance(metadata, dict):
        return
    if problems.blames(("policies", name)):
        return
    found = registry.find(name)
    if found is None or registry.find(name, version) is None:
        if unknown_is_wrong:
            known = ", ".join(sorted(policy.name for policy in registry.policies()))
            what = f"no policy is called {shown(name)}; known are {known}"
            if found is not None:
                what = f"policy {shown(name)} is there in version {found.policy.version} only"
            problems.add((*place, "name" if found is None else "version"), what)
        return
    _coerce_metadata((*place, "metadata"), metadata, found.policy, problems)
    wrong = found.complaint(metadata) or _unfit(found.policy, metadata) or _misplaced(place[1], found.policy, metadata)
    if wrong:
        problems.add((*place, "metadata" if "metadata" in step else "name"), wrong)


def _coerce_metadata(place: Field, metadata: Mapping[str, Json], policy: Policy[Any], problems: Problems) -> None:
    """Numbers and booleans from the environment, like everywhere else in the file."""
    depth = len(place)
    coerce(metadata, [at[depth:] for at in problems.document.whole if at[:depth] == place], policy.metadata_schema)


def _unfit(policy: Policy[Any], metadata: Mapping[str, Json]) -> str | None:
    try:
        policy.prepare(metadata)
    except ValueError as error:
        return str(error)
    return None


def _misplaced(chain: str | int, policy: Policy[Any], metadata: Mapping[str, Json]) -> str | None:
    """A step that could do nothing in the chain that it stands in, or more than is meant."""
    phases = policy.phases_with(metadata)
    if chain == API and phases != REQUEST_PHASE:
        return f"policy `{policy.name}` works on responses; only the headers of requests go through this chain"
    if chain == OUTBOUND and policy.name == "gate":
        return "policy `gate` judges requests of others; calls of `http.get` are judged by the policy already"
    if chain == OUTBOUND and policy.name == "set_headers" and Phase.REQUEST in phases:
        if "hosts" not in metadata:
            return 'needs `hosts`: those that may see these headers, or ["*"] for every one'
        if not all(value.isascii() and value.isprintable() for value in metadata["headers"].values()):
            return "a header holds a character that no header may hold; use printable ASCII"
    return None

"""Judge a call without a gate: no ledger, no service, nothing is done."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import chain

from msgspec import structs

from agent_gate.model.call import Agent, BoundCall, CallRequest, Facts
from agent_gate.model.codec import CodecError, canonical, normalise, sha256_hex
from agent_gate.model.errors import GateError, Problem, ToolError
from agent_gate.model.nearest import nearest
from agent_gate.model.outcome import Outcome, Status
from agent_gate.model.permission import PermissionRule
from agent_gate.model.policy import Policy
from agent_gate.model.schema import arguments_named, names_without_null, validator, without_nulls
from agent_gate.model.tool import Json, Mode, ToolDeclaration
from agent_gate.model.verdict import Decision, Verdict
from agent_gate.policy import pointers
from agent_gate.policy.aliases import aliases_of
from agent_gate.policy.declared import unregistered
from agent_gate.policy.judge import Judge
from agent_gate.policy.signature import signatures_for, validate_name
from agent_gate.tools.catalogue import BUILTIN


@dataclass(frozen=True, slots=True)
class Met:
    """One name of a call, and every rule and default whose pattern matches it."""

    name: str
    is_alias: bool
    rules: tuple[PermissionRule, ...]


@dataclass(frozen=True, slots=True)
class Checked:
    """The outcome that the call would have up to the act, and the verdict with its trace where it was judged."""

    outcome: Outcome
    verdict: Verdict | None = None
    met: tuple[Met, ...] = ()
    """The names that rules see of the call: its signatures first, then its aliases."""
    writes: str = ""
    """Of a command: what becomes of what it writes, as in the policy."""


@dataclass(frozen=True, slots=True)
class Looked:
    """The findings on a guarded call, without making it."""

    signatures: tuple[str, ...]
    resources: Mapping[str, Json] = field(default_factory=dict)
    found: Mapping[str, Json] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()
    look_further: Callable[[], Mapping[str, Json]] | None = None
    """Finds what may only be looked for where the call is allowed so far: a look-up of a name tells it."""


def check_call(
    judge: Judge,
    tool: str,
    args: Mapping[str, Json],
    *,
    at: float,
    agent_id: str = "local",
    roles: tuple[str, ...] = ("operator",),
    project: str = "default",
    mode: Mode = Mode.ASSISTED,
    confirmed: bool = False,
    state: Json = None,
    look: Callable[[Mapping[str, Json]], Looked] | None = None,
    offered: ToolDeclaration | None = None,
) -> Checked:
    """Find what the gate would answer before acting; a tool that nobody offers here is judged by name and arguments.

    `offered` is its declaration, where it is one of an installed package.
    """
    declaration = BUILTIN.get(tool) or offered or unregistered(tool)
    meant = "" if declaration.registered else _meant(tool, judge.policy)
    if meant:
        return Checked(_refused(Problem(2001, f"Unknown tool: {tool}", f"did you mean `{meant}`?{_OWN}", "bind")))
    known: Json = {} if state is None else state
    try:
        given, encoded = normalise(dict(args))
        plain = without_nulls(given, names_without_null(declaration.input_schema))
        encoded = encoded if plain is given else canonical(plain)
        if tool in pointers.TOOLS:
            plain = pointers.with_pointer(plain)
        _validate(declaration, plain)
        looked = look(plain) if look else _looked(declaration, plain, known)
    except CodecError as error:
        return Checked(_refused(Problem(2002, f"the arguments are not JSON: {error}", stage="admit")))
    except GateError as error:
        return Checked(_refused(error.problem.at("bind")))
    request = CallRequest(Agent(agent_id, roles), tool, plain, project, confirmed=confirmed)
    input_hash = sha256_hex(encoded)
    bound = BoundCall("", request, plain, plain, looked.signatures, input_hash, looked.resources, None, looked.aliases)
    facts = Facts(at, mode, roles, confirmed, judge.policy_hash, state=known, found=looked.found)
    verdict = judge.decide(bound, facts, declaration)
    if looked.look_further is not None and verdict.decision is Decision.ALLOW:
        try:
            facts = structs.replace(facts, found=looked.look_further())
        except GateError as error:
            return Checked(_refused(error.problem.at("bind")))
        verdict = judge.decide(bound, facts, declaration)
    met = [Met(name, False, judge.rules_met_by(name)) for name in looked.signatures]
    met += [Met(name, True, judge.rules_met_by(name)) for name in looked.aliases]
    return Checked(_outcome(verdict, looked.signatures), verdict, tuple(met), str(looked.resources.get("writes", "")))


_OWN = " a tool of your own is judged where a rule or `declare` names it"
_LIKENESS = 0.8
"""More than elsewhere: the tools of others are not known here."""


def _meant(tool: str, policy: Policy) -> str:
    """The built-in tool that a name stands for by mistake; empty where it may be somebody's own tool."""
    near = _near_builtin(tool)
    patterns = chain(
        (rule.pattern.partition("(")[0] for rule in (*policy.rules, *policy.defaults)),
        (declare.pattern for declare in policy.declare),
    )
    is_named = near and any(fnmatchcase(tool, each) and not fnmatchcase(near, each) for each in patterns)
    return "" if is_named else near


@lru_cache(maxsize=1_000)
def _near_builtin(tool: str) -> str:
    return nearest(tool, BUILTIN, _LIKENESS)


def _validate(declaration: ToolDeclaration, args: Mapping[str, Json]) -> None:
    try:
        validate_name(declaration.name)
    except ValueError as error:
        raise ToolError(str(error), code=2001) from None
    wrong = validator(declaration.input_schema)(args)
    if wrong:
        known = arguments_named(declaration.input_schema)
        raise ToolError(f"`{declaration.name}`: {wrong}", code=2002, suggestion=known)


def _looked(declaration: ToolDeclaration, args: Mapping[str, Json], state: Json) -> Looked:
    if declaration.signed_when_bound:
        return Looked((declaration.name,))
    return Looked(signatures_for(declaration, args), aliases=aliases_of(declaration, args, state))


def _outcome(verdict: Verdict, signatures: tuple[str, ...]) -> Outcome:
    status = {
        Decision.ALLOW: Status.SUCCESS,
        Decision.ASK: Status.PENDING_APPROVAL,
        Decision.DENY: Status.DENIED,
    }[verdict.decision]
    return Outcome(
        call_id="",
        status=status,
        error=verdict.problem,
        signatures=signatures,
        decision=verdict.decision,
        reasons=verdict.reasons,
        simulated=True,
    )


def _refused(problem: Problem) -> Outcome:
    status = Status.DENIED if problem.code < 2000 else Status.ERROR
    return Outcome(call_id="", status=status, error=problem, decision=Decision.DENY, simulated=True)

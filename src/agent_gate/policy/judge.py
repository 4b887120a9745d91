"""Decide: a pure function from a bound call, its facts and a policy to a verdict with a full trace."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property

from msgspec import structs

from agent_gate.model.call import BoundCall, Facts
from agent_gate.model.change import FileChange
from agent_gate.model.charge import Charge
from agent_gate.model.codec import hash_of
from agent_gate.model.errors import Problem
from agent_gate.model.limit import CountedCall
from agent_gate.model.permission import PermissionRule
from agent_gate.model.policy import CommandGuard, Policy
from agent_gate.model.tool import Risk, ToolDeclaration
from agent_gate.model.verdict import Decision, Reason, Requirement, Verdict
from agent_gate.policy import layers
from agent_gate.policy.changes import ChangeRules
from agent_gate.policy.declared import declared
from agent_gate.policy.expression import Expression, compile_expression
from agent_gate.policy.guards import Guard, GuardContext, Surroundings, guard_or_denial
from agent_gate.policy.limits import charges_for, limits_set, zone_of
from agent_gate.policy.rule_paths import resolved
from agent_gate.policy.rules import Match, RuleIndex
from agent_gate.policy.signature import shown
from agent_gate.policy.state_aliases import is_read, is_wide

JUDGING_EDITION = 3
"""Version of the judging in force; the beginning of a run records it, so that the run can be judged again so."""
_LAYERS_ONLY_TIGHTEN = 2
"""In edition 1 the defaults were silent where a layer spoke, so that an ask of a layer could soften their deny."""
_RULES_HAVE_PATHS = 2
"""In edition 1 a rule about a file by a relative path matched nothing."""
_LOOKING_IS_READING = 3
"""Before edition 3 `state.get` had effect none for roles, like what changes the state: a viewer could see nothing."""
_ALLOW, _ASK, _DENY = Decision.ALLOW, Decision.ASK, Decision.DENY
_SILENT_RULES: layers.Answer = Reason("rules"), None
_UNGUARDED = layers.nothing("guard")
OWN_RECORD = PermissionRule("gate.read(*)", "allow", "an agent may see what its own calls came to")
"""A rule of every policy: a deny rule overrules it, and nobody is asked whether an agent may have its answers."""
_CALLER_LAYERS_MAX = 256
"""Of one tool; there are as many as sets of roles, times modes."""
_VERDICTS_MAX = 1_024
"""Of one tool, kept for calls that are made again and again."""


class Judge:
    """One policy, compiled once; judging touches nothing but its arguments."""

    def __init__(
        self, policy: Policy, surroundings: Surroundings | None = None, edition: int = JUDGING_EDITION
    ) -> None:
        """`edition` is an earlier one only where a run that was judged by it is replayed."""
        self.policy = policy
        self.edition = edition
        self.policy_hash = hash_of(dict(policy.source))
        self.surroundings = surroundings or Surroundings()
        self._guarding = GuardContext(policy, self.surroundings)
        self._index = RuleIndex((*policy.rules, OWN_RECORD), policy.defaults, self._resolved)
        self._zone = zone_of(policy.timezone)
        self._looks_at_state = layers.looks_at_state(policy)
        self._goes_by_calls = not layers.looks_beyond_the_call(policy)
        self._limits = limits_set(policy)
        self.counts = bool(self._limits)
        """True where performing anything counts against a limit."""
        self._tools: dict[str, JudgedTool] = {}

    def _resolved(self, pattern: str) -> str:
        """Rules about files may be relative to where the gate stands."""
        if self.edition < _RULES_HAVE_PATHS or not pattern.startswith("fs."):
            return pattern
        return resolved(pattern, self.surroundings)

    def declared(self, tool: ToolDeclaration) -> ToolDeclaration:
        """Return what the policy makes of a tool's own declaration."""
        return self.judged(tool).declaration

    def needs_state(self, tool: ToolDeclaration) -> bool:
        return self.judged(tool).needs_state

    def goes_by_call_alone(self, tool: ToolDeclaration) -> bool:
        """Tell whether no verdict on the tool can rest on the moment, the project's state or a counter."""
        return self._goes_by_calls and not self.judged(tool).preconditions

    def goes_by_names_alone(self, tool: ToolDeclaration) -> bool:
        """Tell whether verdicts on the tool rest on signatures and caller: no guard looks at anything else either."""
        return self.judged(tool).goes_by_names

    def rules_met_by(self, name: str) -> tuple[PermissionRule, ...]:
        """Every rule and default whose pattern matches a signature or an alias, those that speak first before."""
        return tuple(self._index.met_by(name))

    def charges(self, tool: ToolDeclaration, at: float, run_id: str | None) -> tuple[Charge, ...]:
        """List what performing the call would count against."""
        return self._charges(self.judged(tool).declaration, at, run_id)

    def _charges(self, declaration: ToolDeclaration, at: float, run_id: str | None) -> tuple[Charge, ...]:
        if not self._limits:
            return ()
        return charges_for(self._limits, CountedCall(at, self._zone, declaration.name, declaration.cost, run_id))

    def decide(self, bound: BoundCall, facts: Facts, tool: ToolDeclaration) -> Verdict:
        """The strictest of the verdicts with and without what the request says of itself; an error is a deny."""
        try:
            judged = self.judged(tool)
            if judged.goes_beyond is not None and any(map(judged.goes_beyond, bound.signatures)):
                judged = judged.at_high_risk()
            verdicts = [
                self._decide_as_read(
                    bound, read, judged if read.confirmed is facts.confirmed else judged.once_confirmed()
                )
                for read in facts.readings
            ]
            return strictest(verdicts)
        except Exception as error:
            problem = Problem(1001, f"judging failed: {type(error).__name__}: {error}", stage="decide")
            return Verdict(_DENY, (Reason("judge", _DENY, text=problem.detail),), problem)

    def _decide_as_read(self, bound: BoundCall, facts: Facts, judged: JudgedTool) -> Verdict:
        if not judged.goes_by_names:
            return self._decide(bound, facts, judged)
        # Nothing else is looked at, so that the same question has the same answer.
        question = (
            bound.signatures, bound.aliases, facts.roles, facts.mode, facts.confirmed, facts.can_ask,
            facts.refused_recently,
        )  # fmt: skip
        known = judged.verdicts.get(question)
        return known or judged.keep(question, self._decide(bound, facts, judged))

    def decide_changes(
        self,
        bound: BoundCall,
        facts: Facts,
        changes: Sequence[FileChange],
        requirement: Requirement,
        writing: ToolDeclaration,
    ) -> Verdict:
        """Judge what a command wrote, each path as a call of `writing` would be; an error is a deny."""

        section = self.policy.guards.of(bound.request.tool)
        asks_always = isinstance(section, CommandGuard) and section.writes == "ask"

        def read(facts: Facts) -> Verdict:
            def environment(path: str) -> _Environment:
                written = structs.replace(bound, args={"path": path})
                return _Environment(written, facts, self.declared(writing), self._zone)

            return self._changes.decide(changes, environment, facts, requirement, asks_always=asks_always)

        try:
            return strictest([read(reading) for reading in facts.readings])
        except Exception as error:
            problem = Problem(1001, f"judging failed: {type(error).__name__}: {error}; nothing was written")
            return Verdict(_DENY, (Reason("judge", _DENY, text=problem.detail),), problem)

    @cached_property
    def _changes(self) -> ChangeRules:
        return ChangeRules(self._guarding.files("fs.write"), self._index)

    def judged(self, tool: ToolDeclaration) -> JudgedTool:
        known = self._tools.get(tool.name)
        if known is None or known.given is not tool:
            declaration, guard = declared(tool, self.policy.declare), guard_or_denial(tool, self._guarding)
            known = self._tools[tool.name] = JudgedTool(
                tool, declaration, guard, needs_state=self._looks_at_state, goes_by_calls=self._goes_by_calls
            )
        return known

    def _decide(self, bound: BoundCall, facts: Facts, judged: JudgedTool) -> Verdict:
        policy, declaration = self.policy, judged.declaration
        if not bound.signatures:
            raise ValueError("the call has no signature")
        environment = _Environment(bound, facts, declaration, self._zone)
        matches = [self._index.lookup(signature, environment) for signature in bound.signatures]
        rules = self._rules_answer(bound.signatures, matches)
        guard = judged.guard(bound, facts) if judged.guard is not None else _UNGUARDED
        if guard[0].decision is _ASK and rules[0].decision is _ALLOW:
            guard = Reason("guard", None, guard[0].rule, guard[0].text), None
        caller = judged.caller_layers(facts, policy, looking_is_reading=self.edition >= _LOOKING_IS_READING)
        charges = self._charges(declaration, facts.at, bound.request.run_id)
        answers: list[layers.Answer] = [
            rules,
            guard,
            *layers.beside_the_rules(caller, policy, facts, environment, judged.preconditions, charges),
        ]
        is_unruled = self._is_unruled(matches, guard, answers)
        if is_unruled:
            answers.append(self._unruled(bound.signatures, matches))
        if bound.aliases:
            answers += self._alias_answers(bound, environment, is_unruled)
        return _verdict(answers, caller.requirement, facts)

    def _is_unruled(self, matches: Sequence[Match], guard: layers.Answer, answers: Sequence[layers.Answer]) -> bool:
        """Tell whether the base rests on the defaults: for one of the signatures neither a rule speaks nor the guard.

        No layer has a part in it: an ask of theirs beside a default's deny is a deny.
        """
        if self.edition < _LAYERS_ONLY_TIGHTEN:
            return not any(reason.decision for reason, _ in answers)
        return guard[0].decision is None and any(match.origin != "rule" and not match.error for match in matches)

    def _alias_answers(self, bound: BoundCall, environment: _Environment, is_unruled: bool) -> list[layers.Answer]:
        """Find what a deny or an ask, of the rules or where none spoke of the defaults, says of the other names."""
        strongest: tuple[int, Match, str] | None = None
        for alias in bound.aliases:
            match = self._index.lookup_alias(alias, bound.signatures, environment)
            rank = _RANK.get(match.decision, 0)
            if _refuses(match, is_unruled) and (strongest is None or rank > strongest[0]):
                strongest = rank, match, alias
        return [_spoken("aliases", strongest[1], strongest[2])] if strongest else []

    def withheld(
        self, bound: BoundCall, facts: Facts, tool: ToolDeclaration, beginning: str
    ) -> Callable[[str], bool] | None:
        """Tell which things a list leaves out for this caller, by the alias of each, which all begin so.

        Those that a rule denies or asks about, as it would where the call were about that thing alone; None where no
        rule could speak of any.
        """
        if not self._index.may_refuse(beginning):
            return None
        readings = [_Environment(bound, read, self.declared(tool), self._zone) for read in facts.readings]
        ways = [(environment, self._rests_on_defaults(bound, environment)) for environment in readings]

        def is_withheld(alias: str) -> bool:
            return any(
                _refuses(self._index.lookup_alias(alias, bound.signatures, environment), is_unruled)
                for environment, is_unruled in ways
            )

        return is_withheld

    def _rests_on_defaults(self, bound: BoundCall, environment: _Environment) -> bool:
        matches = (self._index.lookup(signature, environment) for signature in bound.signatures)
        return any(match.origin != "rule" and not match.error for match in matches)

    def _rules_answer(self, signatures: Sequence[str], matches: Sequence[Match]) -> layers.Answer:
        """Deny if any signature is denied, ask if any asks, allow only if a rule allows each of them."""
        strongest: tuple[int, Match, str] | None = None
        allowed = 0
        for signature, match in zip(signatures, matches, strict=True):
            if match.origin == "rule" or match.error:
                rank = _RANK[match.decision]
                allowed += rank == 0
                if strongest is None or rank > strongest[0]:
                    strongest = rank, match, signature
        if strongest is None or (strongest[0] == 0 and allowed < len(signatures)):
            return _SILENT_RULES
        return _spoken("rules", strongest[1], strongest[2])

    def _unruled(self, signatures: Sequence[str], matches: Sequence[Match]) -> layers.Answer:
        """Steps 4 and 5: the defaults, then what the boundary says of the rest."""
        strongest: tuple[int, Match | None, str] = -1, None, ""
        for signature, match in zip(signatures, matches, strict=True):
            if match.origin == "rule" or match.error:
                continue
            rank = _RANK[match.decision] if match.origin == "default" else self._rank_of_silence
            if rank > strongest[0]:
                strongest = rank, match if match.origin == "default" else None, signature
        _, spoken, signature = strongest
        if spoken is not None:
            return _spoken("defaults", spoken, signature)
        if self.policy.deny_by_default:
            if passed_over := self._index.passed_over(signature):
                return _unfulfilled(passed_over, signature)
            return layers.deny(
                "boundary",
                1001,
                f"no rule speaks of `{shown(signature)}` and the boundary denies by default",
                f"add a rule that allows it: {{pattern: '{shown(signature)}', action: allow}}",
            )
        return layers.ask("fallback", f"no rule speaks of `{shown(signature)}`")

    @property
    def _rank_of_silence(self) -> int:
        return _RANK[_DENY if self.policy.deny_by_default else _ASK]


def _refuses(match: Match, is_unruled: bool) -> bool:
    """Tell whether a word on an alias counts: a rule's no or ask does, a default's where no rule spoke of the call."""
    return _RANK.get(match.decision, 0) > 0 and bool(match.origin == "rule" or match.error or is_unruled)


_RANK: dict[Decision | None, int] = {_ALLOW: 0, _ASK: 1, _DENY: 2}


def strictest(verdicts: Sequence[Verdict]) -> Verdict:
    """Of several that are equally strict, the first."""
    return verdicts[0] if len(verdicts) == 1 else max(verdicts, key=lambda verdict: _RANK[verdict.decision])


class JudgedTool:
    """A tool's declaration under one policy, with its preconditions compiled."""

    __slots__ = (
        "_at_high_risk",
        "_caller_layers",
        "_once_confirmed",
        "declaration",
        "given",
        "goes_beyond",
        "goes_by_names",
        "guard",
        "needs_state",
        "preconditions",
        "verdicts",
    )  # fmt: skip

    def __init__(
        self,
        given: ToolDeclaration,
        declaration: ToolDeclaration,
        guard: Guard | None,
        *,
        needs_state: bool,
        goes_by_calls: bool,
    ) -> None:
        self.given = given
        self.declaration = declaration
        self.guard = guard
        self.verdicts: dict[tuple[object, ...], Verdict] = {}
        self.preconditions: tuple[Expression, ...] = tuple(map(compile_expression, declaration.preconditions))
        self.needs_state = needs_state or bool(self.preconditions)
        self.goes_by_names = goes_by_calls and guard is None and not self.preconditions
        reach = given.reach if declaration.risk is not Risk.HIGH else None
        self.goes_beyond = reach.goes_beyond if reach is not None else None
        self._caller_layers: dict[tuple[object, ...], layers.OfCaller] = {}
        self._at_high_risk: JudgedTool | None = None
        self._once_confirmed: JudgedTool | None = None

    def at_high_risk(self) -> JudgedTool:
        """The same tool where what a call sets off cannot be known."""
        if self._at_high_risk is None:
            self._at_high_risk = self._declared_as(replace(self.declaration, risk=Risk.HIGH))
        return self._at_high_risk

    def once_confirmed(self) -> JudgedTool:
        """The same tool for a call that is confirmed, which nothing else is to know."""
        if self._once_confirmed is None:
            self._once_confirmed = self._declared_as(replace(self.declaration, confirmation_required=False))
        return self._once_confirmed

    def _declared_as(self, declaration: ToolDeclaration) -> JudgedTool:
        return JudgedTool(
            self.given,
            declaration,
            self.guard,
            needs_state=self.needs_state,
            goes_by_calls=self.goes_by_names,
        )

    def keep(self, question: tuple[object, ...], verdict: Verdict) -> Verdict:
        if len(self.verdicts) >= _VERDICTS_MAX:
            self.verdicts.clear()
        self.verdicts[question] = verdict
        return verdict

    def caller_layers(self, facts: Facts, policy: Policy, *, looking_is_reading: bool) -> layers.OfCaller:
        """Kept, because the same few callers come again and again."""
        key = facts.roles, facts.mode, facts.confirmed
        known = self._caller_layers.get(key)
        if known is None:
            if len(self._caller_layers) >= _CALLER_LAYERS_MAX:
                self._caller_layers.clear()
            known = self._caller_layers[key] = layers.of_caller(
                self.declaration, facts, policy, looking_is_reading=looking_is_reading
            )
        return known


class _Environment:
    """The environment of expressions; built when the first of them asks."""

    __slots__ = ("_bound", "_declaration", "_facts", "_values", "_zone")

    def __init__(self, bound: BoundCall, facts: Facts, declaration: ToolDeclaration, zone: object) -> None:
        self._bound, self._facts, self._declaration, self._zone = bound, facts, declaration, zone
        self._values: Mapping[str, object] | None = None

    @property
    def moment(self) -> datetime:
        return datetime.fromtimestamp(self._facts.at, self._zone)  # type: ignore[arg-type]

    def __call__(self) -> Mapping[str, object]:
        if self._values is None:
            bound, facts, declaration, now = self._bound, self._facts, self._declaration, self.moment
            self._values = {
                "inputs": bound.args,
                "state": facts.state,
                "tool": declaration.name,
                "agent_id": bound.request.agent.id,
                "roles": list(facts.roles),
                "project": bound.request.project,
                "mode": facts.mode.value,
                "confirmed": facts.confirmed,
                "risk": declaration.risk.value,
                "cost": declaration.cost,
                "hour": now.hour,
                "weekday": now.weekday(),
            }
        return self._values


def _spoken(layer: str, match: Match, signature: str) -> layers.Answer:
    rule = match.rule
    assert rule is not None
    if match.decision is not _DENY:
        text = rule.description
        if layer == "aliases":
            text = f"the same as `{shown(signature)}`, of which the {_name(match)} `{rule.pattern}` asks"
        return Reason(layer, match.decision, rule.pattern, text), None
    if match.error:
        detail = f"the condition of rule `{rule.pattern}` cannot be judged: {match.error}"
        return layers.deny(layer, 1001, detail, f"mend `when: {rule.when}`", rule.pattern)
    why = f" ({rule.description})" if rule.description else ""
    if layer == "aliases" and is_wide(signature):
        does, remedy = ("shows", "read") if is_read(signature) else ("would change", "change")
        detail = f"it {does} more paths than are told one by one, all of them `{shown(signature)}`, of which the"
        detail = f"{detail} {_name(match)} `{rule.pattern}`{why} denies some"
        return layers.deny(layer, 1001, detail, f"{remedy} fewer paths at a time", rule.pattern)
    same = "it is the same as " if layer == "aliases" else ""
    which = f", which is denied by the {_name(match)}" if same else f" is denied by the {_name(match)}"
    return layers.deny(
        layer,
        1001,
        f"{same}`{shown(signature)}`{which} `{rule.pattern}`{why}",
        "narrow or remove it" if match.origin == "rule" else "add a rule that allows it",
        rule.pattern,
    )


def _name(match: Match) -> str:
    return "rule" if match.origin == "rule" else "default"


def _unfulfilled(rule: PermissionRule, signature: str) -> layers.Answer:
    why = f" ({rule.description})" if rule.description else ""
    return layers.deny(
        "boundary",
        1001,
        f"the rule `{rule.pattern}`{why} would let `{shown(signature)}` pass, but its condition does not hold, and the"
        " boundary denies by default",
        f"keep to `when: {rule.when}`, or change it",
        rule.pattern,
    )


def _verdict(answers: Sequence[layers.Answer], requirement: Requirement, facts: Facts) -> Verdict:
    trace, found = zip(*answers, strict=True)
    if any(found):
        problems = [problem for problem in found if problem is not None]
        remedies = "; and ".join(dict.fromkeys(problem.suggestion for problem in problems if problem.suggestion))
        return Verdict(_DENY, trace, replace(problems[0], suggestion=remedies))
    if _ASK not in [reason.decision for reason in trace]:
        return Verdict(_ALLOW, trace)
    if facts.refused_recently:
        return _refused(
            trace, "cooldown", 1022, "a person said no to this a moment ago", "wait for the cooldown to end"
        )
    if not facts.can_ask:
        return _refused(
            trace,
            "approvals",
            1001,
            "a person would have to agree, and nobody can be asked here",
            f"allow it by a rule, or {layers.WHERE_PEOPLE_ARE}",
        )
    return Verdict(_ASK, trace, requirement=requirement)


def _refused(trace: tuple[Reason, ...], layer: str, code: int, detail: str, suggestion: str) -> Verdict:
    asked = next(reason.text or reason.rule for reason in trace if reason.decision is _ASK)
    problem = Problem(code, f"{detail} ({asked})", suggestion, "decide")
    return Verdict(_DENY, (*trace, Reason(layer, _DENY, text=problem.detail)), problem)

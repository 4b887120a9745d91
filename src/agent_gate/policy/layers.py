"""The layers beside the rules: each answers ask, deny or nothing, and says why."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol, TypeAlias

from agent_gate.model.call import Facts
from agent_gate.model.charge import Charge
from agent_gate.model.errors import Problem
from agent_gate.model.policy import ApprovalRule, Policy, Role, Window
from agent_gate.model.roles import roles_that_include
from agent_gate.model.tool import Effect, Mode, Risk, ToolDeclaration
from agent_gate.model.verdict import Decision, Reason, Requirement
from agent_gate.policy.expression import Expression, ExpressionError
from agent_gate.policy.limits import limits_set, no_room, rule_of, used_by

Environment: TypeAlias = Callable[[], Mapping[str, object]]
Answer: TypeAlias = tuple[Reason, Problem | None]


class CallEnvironment(Protocol):
    """Names that expressions see of one call, and the moment in the policy's time zone."""

    def __call__(self) -> Mapping[str, object]: ...

    @property
    def moment(self) -> datetime: ...


DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def nothing(layer: str) -> Answer:
    return _NOTHING[layer]


def allow(layer: str, rule: str = "", text: str = "") -> Answer:
    return Reason(layer, Decision.ALLOW, rule, text), None


def deny(layer: str, code: int, detail: str, suggestion: str = "", rule: str = "") -> Answer:
    return Reason(layer, Decision.DENY, rule, detail), Problem(code, detail, suggestion, "decide")


WHERE_PEOPLE_ARE = "call where a person can answer: at a terminal with approvals_at_terminal: true, or at a server"
"""Advice on a question that nobody could be asked."""


def ask(layer: str, text: str, rule: str = "") -> Answer:
    return Reason(layer, Decision.ASK, rule, text), None


ORDER = ("rules", "guard", "roles", "confirmation", "risk", "preconditions", "windows", "limits", "approvals")
"""The layers of a verdict, as a trace tells them."""
_NOTHING: dict[str, Answer] = {layer: (Reason(layer), None) for layer in ORDER}


class OfCaller(NamedTuple):
    """Answers of the layers that look at nothing but the tool and who calls it, in which mode, confirmed or not."""

    roles: Answer
    confirmation: Answer
    risk: Answer
    approvals: Answer
    requirement: Requirement


def of_caller(declaration: ToolDeclaration, facts: Facts, policy: Policy, *, looking_is_reading: bool) -> OfCaller:
    asked, requirement = approvals(policy.approvals, declaration, facts)
    return OfCaller(
        roles(declaration, facts, policy.roles, looking_is_reading=looking_is_reading),
        confirmation(declaration, facts),
        risk(declaration, facts),
        asked,
        requirement or Requirement(),
    )


def beside_the_rules(
    caller: OfCaller,
    policy: Policy,
    facts: Facts,
    environment: CallEnvironment,
    expressions: Sequence[Expression],
    charges: Sequence[Charge],
) -> tuple[Answer, ...]:
    """Ask all layers after rules and guard, in their order."""
    return (
        caller.roles,
        caller.confirmation,
        caller.risk,
        preconditions(expressions, environment),
        windows(policy.windows, environment.moment) if policy.windows else nothing("windows"),
        limits(charges, facts) if charges else nothing("limits"),
        caller.approvals,
    )


def roles(
    declaration: ToolDeclaration, facts: Facts, known: Mapping[str, Role], *, looking_is_reading: bool = True
) -> Answer:
    """One of the agent's roles must reach the tool's risk and effect, and be among those that the tool requires.

    `looking_is_reading`: `state.get`, which is pure and has effect none, counts as a read, as it shows something.
    """
    effect = Effect.READ if looking_is_reading and declaration.looks else declaration.effect
    required = declaration.required_roles
    if required and not any(role in required for role in facts.roles):
        return deny(
            "roles",
            1009,
            f"`{declaration.name}` needs one of the roles {', '.join(required)}; the agent has {_list(facts.roles)}",
            f"give the agent the role {required[0]}",
        )
    for name in facts.roles:
        role = known.get(name)
        if role and not declaration.risk.exceeds(role.max_risk) and effect in role.effects:
            return nothing("roles")
    return deny(
        "roles",
        1009,
        f"`{declaration.name}` has effect {effect.value} and risk {declaration.risk.value},"
        f" more than {_list(facts.roles)} may do",
        _role_remedy(declaration, effect, known),
    )


def _role_remedy(declaration: ToolDeclaration, effect: Effect, known: Mapping[str, Role]) -> str:
    for name, role in known.items():
        if not declaration.risk.exceeds(role.max_risk) and effect in role.effects:
            return f"give the agent the role {name}"
    return "define a role that may do it under `roles:`"


def confirmation(declaration: ToolDeclaration, facts: Facts) -> Answer:
    if declaration.confirmation_required and not facts.confirmed:
        return deny(
            "confirmation",
            1010,
            f"`{declaration.name}` must be confirmed",
            "repeat the call with confirmed: true if it is meant",
        )
    return nothing("confirmation")


def risk(declaration: ToolDeclaration, facts: Facts) -> Answer:
    if declaration.risk is Risk.HIGH and facts.mode is Mode.AUTONOMOUS:
        return ask("risk", f"`{declaration.name}` has risk high and the agent is autonomous")
    return nothing("risk")


def preconditions(expressions: Sequence[Expression], environment: Environment) -> Answer:
    for expression in expressions:
        try:
            holds = expression.truth(environment())
        except ExpressionError as error:
            return deny(
                "preconditions",
                1011,
                f"precondition `{expression.source}` cannot be judged: {error}",
                rule=expression.source,
            )
        if not holds:
            return deny(
                "preconditions",
                1011,
                f"precondition `{expression.source}` does not hold",
                "bring about what it asks for first",
                expression.source,
            )
    return nothing("preconditions")


def windows(allowed: Sequence[Window], now: datetime) -> Answer:
    minute = now.hour * 60 + now.minute
    if not allowed or any(_covers(window, now.weekday(), minute) for window in allowed):
        return nothing("windows")
    return deny(
        "windows",
        1014,
        f"{DAYS[now.weekday()]} {now:%H:%M} is outside the allowed windows ({'; '.join(map(_shown, allowed))})",
        "try again inside one of them",
    )


def _covers(window: Window, day: int, minute: int) -> bool:
    if window.start_minute < window.end_minute:
        return day in window.days and window.start_minute <= minute < window.end_minute
    after_start = day in window.days and minute >= window.start_minute
    return after_start or ((day - 1) % 7 in window.days and minute < window.end_minute)


def _shown(window: Window) -> str:
    start, end = (f"{minute // 60:02}:{minute % 60:02}" for minute in (window.start_minute, window.end_minute))
    return f"{','.join(DAYS[day] for day in window.days)} {start}-{end}"


def limits(charges: Sequence[Charge], facts: Facts) -> Answer:
    for charge in charges:
        used = used_by(charge, facts.usage)
        if not charge.has_room(used):
            problem = no_room(charge, used)
            return Reason("limits", Decision.DENY, rule_of(charge), problem.detail), problem
    return nothing("limits")


def approvals(
    rules: Sequence[ApprovalRule], declaration: ToolDeclaration, facts: Facts
) -> tuple[Answer, Requirement | None]:
    """Asks where the cost or the risk of a call reaches a rule; who agrees must satisfy every rule that asks."""
    asking = [rule for rule in rules if _asks(rule, declaration, facts)]
    if not asking:
        return nothing("approvals"), None
    named = {rule.approver_role for rule in asking if rule.approver_role}
    roles = tuple(sorted(role for role in named if named.isdisjoint(roles_that_include(role)[1:])))
    text = f"cost {declaration.cost:g}, risk {declaration.risk.value}: a person must agree"
    return ask("approvals", text), Requirement(roles, max(rule.approvers_required for rule in asking))


def _asks(rule: ApprovalRule, declaration: ToolDeclaration, facts: Facts) -> bool:
    if rule.unless_role and rule.unless_role in facts.roles:
        return False
    if rule.min_cost is not None and declaration.cost < rule.min_cost:
        return False
    return rule.risk is None or not rule.risk.exceeds(declaration.risk)


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) if names else "no role"


def looks_at_state(policy: Policy) -> bool:
    """Tell whether a condition of this policy may look at a project's state."""
    return any("state" in rule.when for rule in (*policy.rules, *policy.defaults))


def looks_beyond_the_call(policy: Policy) -> bool:
    """Tell whether a verdict may rest on the moment, on counters, or on whatever a condition looks at."""
    has_conditions = any(rule.when for rule in (*policy.rules, *policy.defaults))
    return bool(policy.windows or has_conditions or limits_set(policy))

"""Random policies with calls that they have something to say about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from msgspec.structs import replace as changed

from agent_gate.model.call import BoundCall, Facts, Usage
from agent_gate.model.tool import Mode, Risk, ToolDeclaration
from agent_gate.model.verdict import Verdict
from agent_gate.tools.files import FS_READ
from tests.unit.policy.judging import NOON, bound_call, facts, judge_of, tool
from tests.unit.policy.verdict_oracle import DAYS, EFFECTS, RISKS, Call

_PATTERNS = ("*", "t*", "t(a)", "t(b)", "t(?)", "t([ab])", "u*", "*b*", "t(c)")
_SIGNATURES = ("t(a)", "t(b)", "t(c)", "t", "u(a)")
_ALIASES = ("t(b)", "t(c)", "u(b)", "v")
_PATHS = ("/a/f", "/a/f", "/a/.h/f", "/a/x/f", "/b/f", "/b/f", "/proc/1/environ")
_ROLES = ("viewer", "operator", "admin", "chef", "guest")
_ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Pacific/Auckland", "Asia/Kathmandu")
_CONDITIONS = (
    "inputs['n'] < 3",
    "get(inputs, 'a.b', 0) == 2",
    "'admin' in roles",
    "confirmed",
    "not confirmed",
    "risk == 'high'",
    "8 <= hour < 18",
    "weekday < 5",
    "cost > 3",
    "mode == 'autonomous'",
    "mode != 'autonomous'",
    "get(state, 'ready', False)",
    "state['stock'] > 0",
    "inputs['missing'] == 1",
    "cost",
)


@dataclass(frozen=True)
class Case:
    policy: Mapping[str, Any]
    declaration: ToolDeclaration
    bound: BoundCall
    facts: Facts

    def under(self, policy: Mapping[str, Any]) -> Case:
        return replace(self, policy=policy)

    def verdict(self) -> Verdict:
        return judge_of(self.policy).decide(self.bound, self.facts, self.declaration)

    def call(self) -> Call:
        declaration, facts = self.declaration, self.facts
        return Call(
            tool={
                "name": declaration.name,
                "effect": declaration.effect.value,
                "risk": declaration.risk.value,
                "cost": declaration.cost,
                "required_roles": list(declaration.required_roles),
                "confirmation_required": declaration.confirmation_required,
                "preconditions": list(declaration.preconditions),
            },
            file=(self.bound.resources["path"], self.facts.found["type"]) if self.bound.resources else None,
            signatures=self.bound.signatures,
            aliases=self.bound.aliases,
            inputs=self.bound.args,
            state=facts.state,
            roles=facts.roles,
            mode=facts.mode.value,
            confirmed=facts.confirmed,
            at=facts.at,
            in_run=self.bound.request.run_id is not None,
            used={
                "minute": facts.usage.get("minute", 0),
                "hour": facts.usage.get("hour", 0),
                "today": facts.usage.get("spent_today", 0),
                "tool": facts.usage.get("calls_of_tool_in_run", 0),
            },
            can_ask=facts.can_ask,
            refused_recently=facts.refused_recently,
            ceiling=facts.ceiling.value if facts.ceiling else None,
        )


def case(random: Random) -> Case:
    calm = random.random() < 0.5
    is_guarded = random.random() < 0.4
    declaration = (
        replace(_tool(random, calm), name="fs.read", guard=FS_READ.guard) if is_guarded else _tool(random, calm)
    )
    signatures = random.sample(_SIGNATURES, random.choice((1, 1, 1, 2, 3)))
    inputs: dict[str, Any] = _some(random, {"n": random.randint(0, 5), "a": {"b": random.randint(1, 3)}})
    bound = bound_call(declaration, signatures, inputs, random.choice((None, "run")), _aliases(random))
    found, (mode, ceiling) = {}, _modes(random)
    if is_guarded:
        path, found = random.choice(_PATHS), {"type": random.choice(("file", "file", "file", "directory"))}
        bound = changed(bound, args={**inputs, "path": path}, resources={"path": path})
    return Case(
        policy(random),
        declaration,
        bound,
        facts(
            found=found,
            at=NOON + random.randint(-30 * 86_400, 300 * 86_400),
            mode=mode,
            ceiling=ceiling,
            roles=("admin",) if calm else tuple(random.sample(_ROLES, random.choice((0, 1, 1, 1, 2)))),
            confirmed=random.random() < 0.5,
            state=random.choice(({}, {"ready": True}, {"stock": 1}, {"stock": 0, "ready": False})),
            usage=_usage(random, calm),
            can_ask=random.random() < 0.8,
            refused_recently=not calm and random.random() < 0.3,
        ),
    )


def _modes(random: Random) -> tuple[Mode, Mode | None]:
    """What the request names, and the agent's own where that is another."""
    named, own = sorted(random.choices(list(Mode), k=2), key=lambda mode: mode.rank)
    return named, None if named is own else own


def _aliases(random: Random) -> list[str]:
    return random.sample(_ALIASES, random.choice((0, 0, 1, 2)))


def _usage(random: Random, calm: bool) -> Usage:
    minute, hour, today = (0 if calm else random.randint(0, 3) for _ in range(3))
    in_run = random.randint(0, 3)
    return {"minute": minute, "hour": hour, "spent_today": today, "calls_of_tool_in_run": in_run}


def _some(random: Random, fields: Mapping[str, Any], share: float = 0.7) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if random.random() < share}


def _tool(random: Random, calm: bool) -> ToolDeclaration:
    """Often harmless: where every layer denies everything, little is compared."""
    if calm:
        return tool(effect=random.choice(EFFECTS), risk=random.choice(RISKS), cost=random.choice((0, 1)))
    return tool(
        effect=random.choice(EFFECTS),
        risk=random.choice((*RISKS, "low", "low")),
        cost=random.choice((0, 0, 1, 5)),
        required_roles=tuple(random.sample(_ROLES, random.choice((0, 0, 0, 1, 2)))),
        confirmation_required=random.random() < 0.2,
        preconditions=tuple(random.sample(_CONDITIONS, random.choice((0, 0, 0, 1, 2)))),
    )


def rule(random: Random) -> dict[str, Any]:
    fields = {"pattern": random.choice(_PATTERNS), "action": random.choice(("allow", "allow", "ask", "deny"))}
    return fields | ({"when": random.choice(_CONDITIONS)} if random.random() < 0.3 else {})


def _section(random: Random) -> dict[str, Any]:
    fields = {"allow_paths": ["/a/**"], "deny_paths": ["/a/x/**"], "allow_hidden": random.random() < 0.2}
    return fields | ({"otherwise": random.choice(("ask", "ask", "deny"))} if random.random() < 0.8 else {})


def policy(random: Random) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "rules": [rule(random) for _ in range(random.randint(0, 4))],
        "defaults": [rule(random) for _ in range(random.randint(0, 3))],
        "boundary": "deny_by_default",
        "timezone": random.choice(_ZONES),
        "declare": {random.choice(("t", "*", "u")): _declare(random)},
        "roles": {"chef": _role(random), **({"operator": _role(random)} if random.random() < 0.3 else {})},
        "limits": {
            "rate": {"per_minute": random.randint(1, 4), "per_hour": random.randint(1, 4)},
            "budget": {"daily": random.randint(1, 8)},
        },
        "max_calls_per_tool": random.randint(1, 4),
        "approvals": [_approval(random) for _ in range(random.randint(1, 3))],
        "windows": {"allowed": [_window(random) for _ in range(random.randint(1, 2))]},
    }
    share = random.choice((0.2, 0.4, 0.7))
    # Approvals may name the role that only `roles` makes known.
    tools = {"tools": {"fs.read": _section(random)}} if random.random() < 0.8 else {}
    return {"version": 1, **_some(random, fields, share), "roles": fields["roles"], **tools}


def with_more(case: Case, random: Random) -> Iterator[tuple[str, Case]]:
    """The same call where one more layer has a say, beside all those that had one before."""
    policy, tool = case.policy, case.declaration
    yield "approvals", case.under({**policy, "approvals": [*policy.get("approvals", ()), _approval(random)]})
    if "windows" not in policy:
        yield "windows", case.under({**policy, "windows": {"allowed": [_window(random)]}})
    limits = {"rate": {"per_minute": random.randint(1, 4)}, "budget": {"daily": random.randint(1, 4)}}
    yield "limits", case.under({**policy, "limits": {**limits, **policy.get("limits", {})}})
    yield "quota", case.under({"max_calls_per_tool": random.randint(1, 4), **policy})
    yield "preconditions", _declaring(case, preconditions=(*tool.preconditions, random.choice(_CONDITIONS)))
    yield "confirmation", _declaring(case, confirmation_required=True)
    if not tool.required_roles:
        yield "roles", _declaring(case, required_roles=(random.choice(_ROLES),))
    if "risk" not in _conditions_of(case):
        yield "risk", _declaring(case, risk=Risk.HIGH)
    if "cost" not in _conditions_of(case):
        yield "cost", _declaring(case, cost=tool.cost + 5)


LAYERS = ("approvals", "windows", "limits", "quota", "preconditions", "confirmation", "roles", "risk", "cost")


def _declaring(case: Case, **fields: Any) -> Case:
    return replace(case, declaration=replace(case.declaration, **fields))


def _conditions_of(case: Case) -> str:
    """Of rules, which may see a tool's risk and cost, and allow where those are high."""
    rules = [*case.policy.get("rules", ()), *case.policy.get("defaults", ())]
    declared = [more.get("preconditions", ()) for more in case.policy.get("declare", {}).values()]
    return repr([rule.get("when") for rule in rules]) + repr([case.declaration.preconditions, declared])


def _role(random: Random) -> dict[str, Any]:
    effects = {"effects": random.sample(EFFECTS, random.randint(1, 3))} if random.random() < 0.5 else {}
    return {"max_risk": random.choice(RISKS), **effects}


def _declare(random: Random) -> dict[str, Any]:
    fields = {
        "effect": random.choice(EFFECTS[1:]),
        "risk": random.choice(RISKS),
        "cost": random.choice((0, 2, 6)),
        "required_roles": random.sample(_ROLES, random.randint(1, 2)),
        "confirmation_required": random.random() < 0.5,
        "preconditions": [random.choice(_CONDITIONS)],
    }
    return _some(random, fields, 0.3) or {"cost": 1}


def _approval(random: Random) -> dict[str, Any]:
    wanted = _some(random, {"min_cost": random.randint(0, 6), "risk": random.choice(RISKS)}) or {"risk": "high"}
    who = {
        "unless_role": random.choice(("viewer", "operator", "admin", "chef")),
        "approver_role": random.choice(("viewer", "operator", "admin", "chef")),
        "approvers_required": random.randint(1, 3),
    }
    return wanted | _some(random, who, 0.5)


def _window(random: Random) -> dict[str, Any]:
    start, end = random.sample([f"{hour:02}:{minute:02}" for hour in range(24) for minute in (0, 1, 30, 59)], 2)
    hours = [start, random.choice((end, end, "24:00"))]
    fields = {"days": random.sample(DAYS, random.randint(1, 7)), "hours": hours}
    return _some(random, fields, 0.8) or {"hours": hours}

"""A second judge of whole policies, as simple as can be, to hold the compiled one against.

It reads the policy as people write it, and looks at nothing of the judge's own: not its layers, charges or roles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from agent_gate.model.permission import PermissionRule
from tests.unit.policy import oracle

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
RISKS = ("low", "medium", "high")
EFFECTS = ("none", "read", "write")
ROLES = {
    "viewer": {"max_risk": "low", "effects": ["read"]},
    "operator": {"max_risk": "medium", "effects": list(EFFECTS)},
    "admin": {"max_risk": "high", "effects": list(EFFECTS)},
}


class Call(NamedTuple):
    """Everything that a verdict may rest on."""

    tool: dict[str, Any]
    """name, effect, risk, cost, required_roles, confirmation_required, preconditions"""
    file: tuple[str, str] | None
    """Path and kind of what `fs.read` would read; None for a tool without a guard."""
    signatures: Sequence[str]
    aliases: Sequence[str]
    inputs: Mapping[str, Any]
    state: Any
    roles: Sequence[str]
    mode: str
    confirmed: bool
    at: float
    in_run: bool
    used: Mapping[str, float]
    """minute, hour, today, tool"""
    can_ask: bool
    refused_recently: bool
    ceiling: str | None = None
    """The agent's own mode, where the request named a stricter one."""
    conditions_hear: bool = True
    """Whether conditions are told that the call is confirmed."""


class Opinion(NamedTuple):
    decision: str
    code: int | None
    """Of the first layer that denies."""
    said: Mapping[str, str]
    """What each layer that spoke said."""
    approver_roles: frozenset[str] = frozenset()
    approvers_required: int = 1


def opinion(policy: Mapping[str, Any], call: Call) -> Opinion:
    """What a request says of itself can only make it stricter."""
    opinions = [
        _opinion(policy, call._replace(mode=mode, conditions_hear=hear))
        for mode in (call.mode, call.ceiling or call.mode)
        for hear in (True, False)
    ]
    return max(opinions, key=lambda found: ("allow", "ask", "deny").index(found.decision))


def _opinion(policy: Mapping[str, Any], call: Call) -> Opinion:  # noqa: PLR0912 -- one screen is the point of it
    tool = _declared(policy, call.tool)
    moment = datetime.fromtimestamp(call.at, ZoneInfo(policy.get("timezone", "UTC")))
    env = _env(call, tool, moment)
    codes: list[tuple[str, int]] = []
    said: dict[str, str] = {}

    def deny(layer: str, code: int) -> None:
        said[layer] = "deny"
        codes.append((layer, code))

    by_rules = [_by_rules(policy, signature, env) for signature in call.signatures]
    spoken = [answer.decision for answer in by_rules if answer.rule.startswith("rules") or answer.failed]
    if "deny" in spoken:
        deny("rules", 1001)
    elif "ask" in spoken:
        said["rules"] = "ask"
    elif len(spoken) == len(by_rules):
        said["rules"] = "allow"

    guarded = _by_guard(policy, *call.file) if call.file else "nothing"
    if isinstance(guarded, int):
        deny("guard", guarded)
    elif guarded == "allow" or (guarded == "ask" and said.get("rules") != "allow"):
        said["guard"] = guarded

    if not _role_suffices(policy, tool, call.roles):
        deny("roles", 1009)
    if tool["confirmation_required"] and not call.confirmed:
        deny("confirmation", 1010)
    if tool["risk"] == "high" and call.mode == "autonomous":
        said["risk"] = "ask"
    if not all(_true(condition, env) for condition in tool["preconditions"]):
        deny("preconditions", 1011)
    if not _inside_a_window(policy, moment):
        deny("windows", 1014)
    limit = _limit_reached(policy, tool, call)
    if limit:
        deny("limits", limit)
    asking = [rule for rule in policy.get("approvals", ()) if _approval_asks(rule, tool, call.roles)]
    if asking:
        said["approvals"] = "ask"

    unruled = "guard" not in said and len(spoken) < len(by_rules)
    if unruled and _let_defaults_speak(policy, by_rules, said) == "deny":
        codes.append(("defaults", 1001))
    of_aliases = [_of_alias(policy, call, alias, env, unruled) for alias in call.aliases]
    if "deny" in of_aliases:
        deny("aliases", 1001)
    elif "ask" in of_aliases:
        said["aliases"] = "ask"
    if codes:
        return Opinion("deny", codes[0][1], said)
    if "ask" not in said.values():
        return Opinion("allow", None, said)
    if call.refused_recently:
        return Opinion("deny", 1022, {**said, "cooldown": "deny"})
    if not call.can_ask:
        return Opinion("deny", 1001, {**said, "approvals": "deny"})
    return Opinion("ask", None, said, _approver_roles(asking), max([1, *(_quorum(rule) for rule in asking)]))


def _declared(policy: Mapping[str, Any], tool: dict[str, Any]) -> dict[str, Any]:
    """A tool that says what it is can only be made stricter."""
    tool = dict(tool)
    for pattern, more in policy.get("declare", {}).items():
        if not fnmatchcase(tool["name"], pattern):
            continue
        if "effect" in more and tool["effect"] != "none":
            tool["effect"] = max(tool["effect"], more["effect"], key=EFFECTS.index)
        if "risk" in more:
            tool["risk"] = max(tool["risk"], more["risk"], key=RISKS.index)
        tool["cost"] = max(tool["cost"], more.get("cost", 0))
        if "required_roles" in more:
            before = tool["required_roles"] or more["required_roles"]
            tool["required_roles"] = [role for role in more["required_roles"] if role in before] or ["nobody"]
        tool["confirmation_required"] = tool["confirmation_required"] or more.get("confirmation_required", False)
        tool["preconditions"] = [*tool["preconditions"], *more.get("preconditions", ())]
    return tool


def _env(call: Call, tool: Mapping[str, Any], moment: datetime) -> dict[str, Any]:
    return {
        "inputs": call.inputs,
        "state": call.state,
        "tool": tool["name"],
        "agent_id": "bot",
        "roles": list(call.roles),
        "project": "default",
        "mode": call.mode,
        "confirmed": call.confirmed and call.conditions_hear,
        "risk": tool["risk"],
        "cost": tool["cost"],
        "hour": moment.hour,
        "weekday": moment.weekday(),
    }


def _by_rules(policy: Mapping[str, Any], signature: str, env: Mapping[str, Any]) -> oracle.Answer:
    listed = [[PermissionRule(**rule) for rule in policy.get(key, ())] for key in ("rules", "defaults")]
    return oracle.answer(listed[0], listed[1], signature, env)


def _by_guard(policy: Mapping[str, Any], path: str, kind: str) -> str | int:
    """`allow`, `ask`, or the code of a deny; the one pattern that the policies allow ends in `/**`."""
    section = policy.get("tools", {}).get("fs.read")
    if section is None:
        return 1001
    if path.startswith("/proc/"):
        return 1021
    if path.startswith("/a/x/"):
        return 1002
    is_listed = path.startswith("/a/") and (section["allow_hidden"] or "/." not in path)
    if kind != "file" or not (is_listed or section.get("otherwise") == "ask"):
        return 1002
    return "allow" if is_listed else "ask"


def _of_alias(policy: Mapping[str, Any], call: Call, alias: str, env: Mapping[str, Any], unruled: bool) -> str:
    """What is said of another name of the call by what has not had its say on the call's own."""

    def left(key: str, *always: str) -> list[dict[str, Any]]:
        return [
            rule
            for rule in policy.get(key, ())
            if rule["action"] in always
            or not all(fnmatchcase(signature, rule["pattern"]) for signature in call.signatures)
        ]

    others = {"rules": left("rules", "allow"), "defaults": left("defaults", "allow")}
    answer = _by_rules(others, alias, env)
    speaks = answer.rule.startswith("rules") or answer.failed or unruled
    return answer.decision if speaks and answer.decision != "allow" else "nothing"


def _true(condition: str, env: Mapping[str, Any]) -> bool:
    rule = PermissionRule("*", "allow", when=condition)
    return oracle.answer([rule], [], "x", env).decision == "allow"


def _role_suffices(policy: Mapping[str, Any], tool: Mapping[str, Any], roles: Sequence[str]) -> bool:
    known = {name: dict(role) for name, role in ROLES.items()}
    for name, fields in policy.get("roles", {}).items():
        known[name] = {"effects": list(EFFECTS), **known.get(name, {}), **fields}
    if tool["required_roles"] and not set(roles) & set(tool["required_roles"]):
        return False
    held = [known[name] for name in roles if name in known]
    return any(tool["effect"] in role["effects"] and _at_most(tool["risk"], role["max_risk"]) for role in held)


def _at_most(risk: str, limit: Any) -> bool:
    return RISKS.index(risk) <= RISKS.index(limit)


def _inside_a_window(policy: Mapping[str, Any], moment: datetime) -> bool:
    windows = policy.get("windows", {}).get("allowed", [])
    wall = moment.replace(tzinfo=None, second=0, microsecond=0)
    for window in windows:
        start_text, end_text = window.get("hours", ["00:00", "24:00"])
        for days_ago in (0, 1):
            midnight = wall.replace(hour=0, minute=0) - timedelta(days=days_ago)
            start, end = midnight + _since_midnight(start_text), midnight + _since_midnight(end_text)
            if end <= start:
                end += timedelta(days=1)
            if start <= wall < end and DAYS[start.weekday()] in window.get("days", DAYS):
                return True
    return not windows


def _since_midnight(text: str) -> timedelta:
    hours, minutes = text.split(":")
    return timedelta(hours=int(hours), minutes=int(minutes))


def _limit_reached(policy: Mapping[str, Any], tool: Mapping[str, Any], call: Call) -> int | None:
    limits = policy.get("limits", {})
    rate, budget = limits.get("rate", {}), limits.get("budget", {})
    if "per_minute" in rate and call.used["minute"] >= rate["per_minute"]:
        return 1012
    if "per_hour" in rate and call.used["hour"] >= rate["per_hour"]:
        return 1012
    if "daily" in budget and tool["cost"] > 0 and call.used["today"] + tool["cost"] > budget["daily"]:
        return 1013
    if "max_calls_per_tool" in policy and call.in_run and call.used["tool"] >= policy["max_calls_per_tool"]:
        return 1007
    return None


def _approval_asks(rule: Mapping[str, Any], tool: Mapping[str, Any], roles: Sequence[str]) -> bool:
    if rule.get("unless_role") in roles:
        return False
    if "min_cost" in rule and tool["cost"] < rule["min_cost"]:
        return False
    return "risk" not in rule or _at_most(rule["risk"], tool["risk"])


def _quorum(rule: Mapping[str, Any]) -> int:
    return int(rule.get("approvers_required", 1))


def _approver_roles(asking: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """Every role that is named; of viewer, operator and admin the highest stands for those below it."""
    named = {rule["approver_role"] for rule in asking if "approver_role" in rule}
    ladder = [role for role in ROLES if role in named]
    return frozenset(named - set(ladder[:-1]))


def _let_defaults_speak(policy: Mapping[str, Any], by_rules: Sequence[oracle.Answer], said: dict[str, str]) -> str:
    """The strictest of what defaults and boundary say of the signatures that no rule allows, and who said it first."""
    silence = "deny" if "boundary" in policy else "ask"
    said_of = []
    for answer in by_rules:
        if answer.failed:
            continue
        if answer.rule.startswith("defaults"):
            said_of.append((answer.decision, "defaults"))
        elif not answer.rule:
            said_of.append((silence, "boundary" if silence == "deny" else "fallback"))
    strictest = max((decision for decision, _ in said_of), key=("allow", "ask", "deny").index)
    layer = next(layer for decision, layer in said_of if decision == strictest)
    said[layer] = strictest
    return strictest

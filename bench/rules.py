"""The rule index: flat in the number of rules, against Cedar and Casbin, and on patterns that no index helps."""

from __future__ import annotations

import fnmatch
import itertools
import random
import re
from collections.abc import Iterator, Sequence

import casbin
import cedarpy

from agent_gate.model.call import Agent, BoundCall, CallRequest, Facts
from agent_gate.model.permission import PermissionRule, Permissions
from agent_gate.model.policy import Policy
from agent_gate.model.tool import Effect, Mode, Risk, ToolDeclaration
from agent_gate.policy.judge import Judge
from agent_gate.policy.rules import RuleIndex
from bench.figure import Figure, at_least, at_most, microseconds_each

ACTIONS = ("deny", "allow", "ask")


def rules_like_a_home(count: int) -> list[PermissionRule]:
    """Rules as people write them: a service on one entity, on a domain, reads of a path, calls of a server's tool."""
    shapes = (
        "ha_call_service(light.turn_on, light.room_{n})",
        "ha_call_service(lock{n}.*)",
        "fs.read(/srv/project{n}/*)",
        "http.get(https://api{n}.example.com/*)",
        "server{n}_*",
    )
    return [
        PermissionRule(shapes[number % len(shapes)].format(n=number), ACTIONS[number % 3]) for number in range(count)
    ]


def signatures(count: int) -> list[str]:
    """A mix of hits and misses."""
    numbers = random.Random(7).sample(range(count), min(count, 20))
    hits = [
        text.format(n=number)
        for number, text in zip(
            numbers,
            itertools.cycle(
                (
                    "ha_call_service(light.turn_on, light.room_{n})",
                    "fs.read(/srv/project{n}/src/main.py)",
                    "http.get(https://api{n}.example.com/v1/items%3Fa=b)",
                    "server{n}_search(query text)",
                )
            ),
            strict=False,
        )
    ]
    return [*hits, "ha_get_state(sensor.outside)", "mail.send(anna@example.com, hello)"]


def looked_up(rules: Sequence[PermissionRule], wanted: Sequence[str]) -> float:
    index = RuleIndex(rules, [])
    for signature in wanted:
        index.lookup(signature)
    turn = itertools.cycle(wanted)
    return microseconds_each(lambda: index.lookup(next(turn)), 5_000)


def figures() -> Iterator[Figure]:
    few, many = rules_like_a_home(100), rules_like_a_home(100_000)
    yield at_most(
        "rule look-up, 100,000 rules", looked_up(many, signatures(100_000)), looked_up(few, signatures(100)),
        "the same with 100 rules", "µs", 2,
    )  # fmt: skip
    thousand = rules_like_a_home(1_000)
    ours = looked_up(thousand, signatures(1_000))
    yield at_least("rule look-ups against cedarpy, 1,000 rules", 1e6 / ours, 1e6 / _cedar(thousand), CEDAR, "1/s", 100)
    yield at_least(
        "rule look-ups against pycasbin, 1,000 rules", 1e6 / ours, 1e6 / _casbin(thousand), CASBIN, "1/s", 100
    )
    yield _hard_patterns()
    yield at_most("decide with trace, 1,000 rules", _decide(thousand), ours, "the look-up alone", "µs", 15)


CEDAR = "cedarpy, the same rules as a parsed PolicySet"
CASBIN = "pycasbin, the same rules loaded, globMatch"


def _cedar(rules: Sequence[PermissionRule]) -> float:
    text = "\n".join(
        f"{'permit' if rule.action == 'allow' else 'forbid'}(principal, action, resource)"
        f' when {{ context.signature like "{rule.pattern}" }};'
        for rule in rules
    )
    policies = cedarpy.PolicySet.from_str(text)
    entities = cedarpy.Entities.from_json_str("[]")
    turn = itertools.cycle(signatures(len(rules)))

    def ask() -> object:
        request = {
            "principal": 'Agent::"a"',
            "action": 'Action::"call"',
            "resource": 'Gate::"g"',
            "context": {"signature": next(turn)},
        }
        return cedarpy.is_authorized(request, policies, entities)

    return microseconds_each(ask, 50)


def _casbin(rules: Sequence[PermissionRule]) -> float:
    model = casbin.Enforcer.new_model()
    model.load_model_from_text(
        "[request_definition]\nr = sub, sig\n[policy_definition]\np = sub, pat, eft\n"
        "[policy_effect]\ne = some(where (p.eft == allow)) && !some(where (p.eft == deny))\n"
        "[matchers]\nm = r.sub == p.sub && globMatch(r.sig, p.pat)\n"
    )
    enforcer = casbin.Enforcer(model)
    for rule in rules:
        enforcer.add_policy("a", rule.pattern, "allow" if rule.action == "allow" else "deny")
    turn = itertools.cycle(signatures(len(rules)))
    return microseconds_each(lambda: enforcer.enforce("a", next(turn)), 3)


def _hard_patterns() -> Figure:
    """No rare literal anywhere: nothing but trying helps."""
    letters = random.Random(3)
    alphabet = "abcdefghijklmnopqrstuvwxyz"
    patterns = ["*" + "*".join(letters.choices(alphabet, k=3)) + "*" for _ in range(1_000)]
    wanted = ["".join(letters.choices(alphabet[:4], k=30)) for _ in range(20)]
    rules = [PermissionRule(pattern, "allow") for pattern in patterns if not set(pattern) <= set("*abcd")]
    compiled = [re.compile(fnmatch.translate(rule.pattern)).match for rule in rules]
    index = RuleIndex(rules, [])
    turn, other = itertools.cycle(wanted), itertools.cycle(wanted)
    ours = microseconds_each(lambda: index.lookup(next(turn)), 100)

    def loop() -> object:
        signature = next(other)
        return next((True for match in compiled if match(signature)), None)

    return at_most(
        "look-up, patterns without a rare literal", ours, microseconds_each(loop, 100), "a loop over re", "µs", 1
    )


def _decide(rules: Sequence[PermissionRule]) -> float:
    judge = Judge(Policy(permissions=Permissions(rules=list(rules)), source={"rules": len(rules)}))
    tool = ToolDeclaration("fs.search", effect=Effect.READ, risk=Risk.LOW, cost=0)
    agent = Agent("bench")
    bounds = [
        BoundCall("c", CallRequest(agent, tool.name, {}), {}, {}, (signature,), "h")
        for signature in signatures(len(rules))
    ]
    facts = Facts(1_800_000_000.0, Mode.ASSISTED, ("operator",), False, judge.policy_hash)
    turn, judged = itertools.cycle(bounds), judge.judged(tool)
    # Not `decide`, which keeps its answers: each call is to be judged.
    return microseconds_each(lambda: judge._decide(next(turn), facts, judged), 2_000)

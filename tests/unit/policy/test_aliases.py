"""Alias signatures: seen by deny and ask rules, and nothing else."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agent_gate.model.call import BoundCall
from agent_gate.model.tool import Json
from agent_gate.model.verdict import Decision, Verdict
from agent_gate.policy.aliases import aliases_of
from agent_gate.tools.catalogue import BUILTIN
from tests.unit.policy import random_policies
from tests.unit.policy.judging import ALLOW, answers, bound_call, facts, judge_of, judged, tool

STRICTER = (Decision.ALLOW, Decision.ASK, Decision.DENY)


def said(*rules: tuple[str, str], aliases: tuple[str, ...] = ("t(plain)",), boundary: bool = False) -> Verdict:
    """On a call of `t(odd)`."""
    policy: dict[str, Json] = {"rules": [{"pattern": pattern, "action": action} for action, pattern in rules]}
    policy |= {"boundary": "deny_by_default"} if boundary else {}
    return judged(policy, None, "t(odd)", aliases=aliases)


def test_a_deny_of_an_alias_denies_and_says_by_which_name() -> None:
    verdict = said(("allow", "t(odd)"), ("deny", "t(plain)"))
    assert verdict.problem is not None
    assert str(verdict.problem) == (
        "policy_denied: it is the same as `t(plain)`, which is denied by the rule `t(plain)`; narrow or remove it"
    )


def test_an_ask_of_an_alias_asks_though_the_signature_is_allowed() -> None:
    verdict = said(("allow", "t(odd)"), ("ask", "t(plain)"))
    assert verdict.decision is Decision.ASK
    assert verdict.reasons[0].text == "the same as `t(plain)`, of which the rule `t(plain)` asks"


def test_an_allow_of_an_alias_lets_nothing_pass() -> None:
    assert said(("allow", "t(plain)"), boundary=True).decision is Decision.DENY
    assert said(("allow", "t(plain)")).decision is Decision.ASK


def test_an_allow_silences_an_ask_of_the_very_alias_that_it_matches() -> None:
    assert said(("allow", "t(*)"), ("ask", "t(plain)")).decision is Decision.ALLOW
    assert said(("allow", "t(odd)"), ("allow", "t(plain)"), ("ask", "*plain*")).decision is Decision.ALLOW


def test_an_ask_that_an_allow_silenced_on_the_signature_does_not_come_back_by_an_alias() -> None:
    assert said(("allow", "t(odd)"), ("ask", "t(*)")).decision is Decision.ALLOW


def test_defaults_speak_of_aliases_where_they_speak_of_the_signature() -> None:
    denied = [{"pattern": "t(plain)", "action": "deny"}, ALLOW]
    assert judged({"defaults": denied}, None, "t(odd)", aliases=["t(plain)"]).decision is Decision.DENY
    ruled = {"rules": [{"pattern": "t(odd)", "action": "allow"}], "defaults": denied}
    assert judged(ruled, None, "t(odd)", aliases=["t(plain)"]).decision is Decision.ALLOW
    overtaken = [{"pattern": "t(odd)", "action": "allow"}, {"pattern": "t*", "action": "deny"}]
    assert judged({"defaults": overtaken}, None, "t(odd)", aliases=["t(plain)"]).decision is Decision.ALLOW


def test_an_ask_of_an_alias_does_not_soften_a_deny_of_the_boundary() -> None:
    assert said(("ask", "t(plain)"), boundary=True).decision is Decision.DENY


def test_kept_verdicts_are_told_apart_by_their_aliases() -> None:
    judge = judge_of({"rules": [{"pattern": "t(odd)", "action": "allow"}, {"pattern": "t(plain)", "action": "deny"}]})
    declaration = tool()
    assert judge.goes_by_names_alone(declaration)
    calls = [bound_call(declaration, ["t(odd)"]), bound_call(declaration, ["t(odd)"], aliases=["t(plain)"])]
    decisions = [judge.decide(call, facts(), declaration).decision for call in (*calls, *calls)]
    assert decisions == [Decision.ALLOW, Decision.DENY] * 2


def test_an_approval_rests_on_the_aliases_too() -> None:
    call = bound_call(tool(), ["t(odd)"])
    assert replace(call, aliases=("t(plain)",)).bound_hash != call.bound_hash


@given(st.lists(st.integers(0, 2**48), min_size=5, max_size=5))
def test_an_alias_never_makes_a_verdict_looser(seeds: list[int]) -> None:
    for seed in seeds:
        case = random_policies.case(Random(seed))
        judge = judge_of(case.policy)

        def decision(bound: BoundCall) -> Decision:
            return judge.decide(bound, case.facts, case.declaration).decision  # noqa: B023 -- called within the turn

        few = STRICTER.index(decision(replace(case.bound, aliases=())))
        more = STRICTER.index(decision(case.bound))
        assert few <= more, (seed, case)


@pytest.mark.parametrize(
    ("name", "args", "aliases"),
    [
        ("state.set", {"path": "/a", "value": 1}, ("state.set(/a)",)),
        ("state.delete", {"path": "/a/b"}, ("state.set(/a/b)",)),
        (
            "state.patch",
            {"patch": [{"op": "test", "path": "/t"}, {"op": "move", "from": "/x", "path": "/y*"}]},
            ("state.set(/y%2A)", "state.set(/x)", "state.get(/t)", "state.get(/x)"),
        ),
        ("state.get", {"path": "/a"}, ()),
        ("ha_get_state", {"entity_id": "light.a"}, ()),
        ("ha_get_entity_state", {"entity_id": "light.a"}, ("ha_get_state(light.a)",)),
        ("ha_get_history", {"entity_ids": ["light.a", "b.c"]}, ("ha_get_state(light.a)", "ha_get_state(b.c)")),
        ("ha_get_statistics", {"statistic_ids": ["sensor.a"]}, ("ha_get_state(sensor.a)",)),
    ],
)
def test_tools_that_do_the_same_are_known_by_one_name(name: str, args: Json, aliases: tuple[str, ...]) -> None:
    assert aliases_of(BUILTIN[name], args) == aliases


def test_a_deny_of_one_state_tool_holds_for_all() -> None:
    policy: dict[str, Json] = {"rules": [ALLOW, {"pattern": "state.set(/locks*)", "action": "deny"}]}
    args = {"patch": [{"op": "add", "path": "/locks/front", "value": "open"}]}
    verdict = judged(policy, tool("state.patch"), "state.patch(…)", aliases=aliases_of(BUILTIN["state.patch"], args))
    assert answers(verdict)["aliases"] == "deny"

"""The order in which rules, guards, layers, defaults and the boundary decide, and the trace that tells it."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_gate.model.call import Agent, CallRequest
from agent_gate.model.codec import canonical
from agent_gate.model.tool import Json, Mode, ToolDeclaration
from agent_gate.model.verdict import Decision, Requirement
from agent_gate.pipeline.bind import Binder
from agent_gate.policy.judge import Judge
from agent_gate.policy.layers import ORDER
from agent_gate.ports.tools import Binding
from agent_gate.tools.state import STATE_GET
from tests.unit.policy import random_policies
from tests.unit.policy.judging import ALLOW, answers, bound_call, code, facts, judge_of, judged, tool

DENY, ASK = {"pattern": "*", "action": "deny"}, {"pattern": "*", "action": "ask"}
LAYERS = list(ORDER)


@pytest.mark.parametrize(
    ("policy", "decision"),
    [
        ({"rules": [ALLOW, DENY]}, "deny"),
        ({"rules": [DENY, ALLOW]}, "deny"),
        ({"rules": [ASK, ALLOW]}, "allow"),
        ({"rules": [ASK, DENY]}, "deny"),
        ({"rules": [ALLOW], "defaults": [DENY]}, "allow"),
        ({"rules": [ASK], "defaults": [ALLOW]}, "ask"),
        ({"defaults": [ALLOW, DENY]}, "allow"),
        ({"defaults": [DENY, ALLOW]}, "deny"),
        ({"defaults": [ASK, ALLOW]}, "ask"),
        ({}, "ask"),
        ({"boundary": "deny_by_default"}, "deny"),
        ({"boundary": "deny_by_default", "defaults": [ALLOW]}, "allow"),
        ({"boundary": "deny_by_default", "rules": [ASK]}, "ask"),
        ({"rules": [{"pattern": "other", "action": "allow"}]}, "ask"),
    ],
)
def test_deny_then_ask_then_allow_then_defaults_then_the_boundary(policy: Mapping[str, Json], decision: str) -> None:
    assert judged({"version": 1, **policy}).decision.value == decision


@pytest.mark.parametrize(
    ("policy", "decision"),
    [
        ({"defaults": [DENY]}, "deny"),
        ({"defaults": [ALLOW]}, "ask"),
        ({"boundary": "deny_by_default"}, "deny"),
        ({"boundary": "deny_by_default", "defaults": [ALLOW]}, "ask"),
        ({"rules": [ALLOW], "defaults": [DENY]}, "ask"),
        ({"rules": [ALLOW]}, "ask"),
        ({"rules": [DENY]}, "deny"),
        ({"version": 1}, "ask"),
    ],
)
def test_a_layer_s_ask_beats_every_allow_and_yields_to_every_deny(policy: Mapping[str, Json], decision: str) -> None:
    assert judged({**policy, "approvals": [{"min_cost": 0}]}).decision.value == decision
    risky = tool(risk="high")
    assert judged(policy, risky, mode=Mode.AUTONOMOUS, roles=("admin",)).decision.value == decision


@pytest.mark.parametrize("rest", [{"defaults": [DENY]}, {"boundary": "deny_by_default"}])
def test_a_rule_that_asks_of_one_signature_does_not_soften_what_is_denied_of_another(rest: Mapping[str, Json]) -> None:
    policy = {"rules": [{"pattern": "t(a)", "action": "ask"}], **rest}
    assert judged(policy, tool(), "t(a)", "t(b)").decision is Decision.DENY
    assert judged(policy, tool(), "t(a)").decision is Decision.ASK


def test_a_layer_s_deny_beats_every_allow_and_every_ask() -> None:
    policy = {"rules": [ALLOW, ASK], "approvals": [{"min_cost": 0}]}
    verdict = judged(policy, tool(confirmation_required=True))
    assert (verdict.decision, code(verdict)) == (Decision.DENY, 1010)


@pytest.mark.parametrize(
    ("rules", "decision"),
    [
        ([("t(a)", "allow"), ("t(b)", "allow")], "allow"),
        ([("t(a)", "allow"), ("t(b)", "ask")], "ask"),
        ([("t(a)", "allow"), ("t(b)", "deny")], "deny"),
        ([("t(a)", "ask"), ("t(b)", "deny")], "deny"),
        ([("t(a)", "allow")], "ask"),
        ([], "ask"),
    ],
)
def test_of_several_signatures_any_deny_denies_any_ask_asks_and_all_must_be_allowed(
    rules: list[tuple[str, str]], decision: str
) -> None:
    policy = {"version": 1, "rules": [{"pattern": pattern, "action": action} for pattern, action in rules]}
    assert judged(policy, tool(), "t(a)", "t(b)").decision.value == decision
    assert judged(policy, tool(), "t(b)", "t(a)").decision.value == decision


@pytest.mark.parametrize(
    ("rest", "decision"),
    [
        ({"defaults": [{"pattern": "t(b)", "action": "allow"}]}, "allow"),
        ({"defaults": [{"pattern": "*", "action": "deny"}]}, "deny"),
        ({"boundary": "deny_by_default"}, "deny"),
        ({}, "ask"),
    ],
)
def test_a_signature_that_no_rule_allows_is_left_to_defaults_and_boundary(
    rest: Mapping[str, Json], decision: str
) -> None:
    policy = {"rules": [{"pattern": "t(a)", "action": "allow"}], **rest}
    assert judged(policy, tool(), "t(a)", "t(b)").decision.value == decision


def test_a_call_without_a_signature_is_denied() -> None:
    declaration = tool()
    verdict = judge_of({"rules": [ALLOW]}).decide(bound_call(declaration, ()), facts(), declaration)
    assert (verdict.decision, code(verdict)) == (Decision.DENY, 1001)


def test_an_error_while_judging_is_a_deny() -> None:
    declaration = tool(preconditions=("this is ( no expression",))
    verdict = judged({"rules": [ALLOW]}, declaration)
    assert (verdict.decision, code(verdict)) == (Decision.DENY, 1001)
    assert "judging failed" in str(verdict.problem)


@pytest.mark.parametrize("name", ["fs.read", "fs.write", "http.get", "shell.run"])
def test_a_guarded_tool_without_its_section_is_denied_whatever_the_rules_say(name: str) -> None:
    verdict = judged({"rules": [ALLOW]}, tool(name), f"{name}(x)")
    assert (verdict.decision, code(verdict), answers(verdict)["guard"]) == (Decision.DENY, 1001, "deny")
    assert f"tools: {{{name}:" in str(verdict.problem)


@pytest.mark.parametrize(
    ("when", "decision", "expected_code"),
    [
        ("inputs['n'] < 3", "allow", None),
        ("inputs['n'] > 3", "ask", None),
        ("inputs['m'] < 3", "deny", 1001),
        ("inputs['n']", "deny", 1001),
        ("'operator' in roles and hour == 12 and weekday == 2 and not confirmed", "allow", None),
        ("tool == 't' and agent_id == 'bot' and project == 'default' and mode == 'assisted'", "allow", None),
        ("risk == 'low' and cost == 0 and get(state, 'x.y', 7) == 7", "allow", None),
    ],
)
def test_a_rule_speaks_only_where_its_condition_holds_and_one_that_cannot_be_judged_denies(
    when: str, decision: str, expected_code: int | None
) -> None:
    verdict = judged({"rules": [{**ALLOW, "when": when}]}, args={"n": 2})
    assert (verdict.decision.value, code(verdict)) == (decision, expected_code)


def test_a_deny_rule_whose_condition_is_false_is_passed_over() -> None:
    policy = {"rules": [{**DENY, "when": "confirmed"}, ALLOW]}
    assert judged(policy).decision is Decision.ALLOW
    assert judged(policy, confirmed=True).decision is Decision.DENY


def test_a_denial_names_the_rule_that_would_have_allowed_it_and_its_condition() -> None:
    allow = {**ALLOW, "when": "inputs['n'] <= 22", "description": "no warmer"}
    rules = [{**DENY, "when": "inputs['n'] > 99"}, allow]
    verdict = judged({"rules": rules, "boundary": "deny_by_default"}, args={"n": 30})
    assert (verdict.decision, code(verdict)) == (Decision.DENY, 1001)
    assert verdict.problem is not None
    assert f"the rule `{ALLOW['pattern']}` (no warmer) would let" in verdict.problem.detail
    assert verdict.problem.suggestion == "keep to `when: inputs['n'] <= 22`, or change it"


def test_a_denial_names_no_deny_rule_whose_condition_did_not_hold() -> None:
    rules = [{**DENY, "when": "inputs['n'] > 99"}]
    verdict = judged({"rules": rules, "boundary": "deny_by_default"}, args={"n": 30})
    assert "no rule speaks of" in str(verdict.problem)


def test_the_trace_has_every_layer_s_answer_in_order() -> None:
    verdict = judged({"rules": [ALLOW], "approvals": [{"min_cost": 0}]})
    assert [reason.layer for reason in verdict.trace] == LAYERS
    assert answers(verdict) == {"rules": "allow", "approvals": "ask"}
    assert [reason.to_trace()["answer"] for reason in verdict.trace] == ["allow", *["nothing"] * 7, "ask"]
    assert [reason.layer for reason in verdict.reasons] == ["approvals"]


def test_the_trace_goes_on_after_a_deny_so_that_every_obstacle_is_known() -> None:
    policy = {"rules": [{**DENY, "description": "never"}], "windows": {"allowed": [{"days": ["sun"]}]}}
    verdict = judged(policy, tool(confirmation_required=True))
    assert answers(verdict) == {"rules": "deny", "confirmation": "deny", "windows": "deny"}
    assert [reason.layer for reason in verdict.trace] == LAYERS
    assert verdict.problem is not None
    assert verdict.problem.code == 1001
    assert "(never)" in verdict.problem.detail


def test_what_speaks_last_is_named_in_the_trace() -> None:
    assert answers(judged({"version": 1})) == {"fallback": "ask"}
    assert answers(judged({"boundary": "deny_by_default"})) == {"boundary": "deny"}
    assert answers(judged({"defaults": [ALLOW]})) == {"defaults": "allow"}


def test_the_rule_that_spoke_is_named() -> None:
    policy = {
        "rules": [{"pattern": "x", "action": "deny"}, {"pattern": "t(*", "action": "deny", "description": "no t"}]
    }
    verdict = judged(policy)
    [reason] = verdict.reasons
    assert (reason.rule, reason.to_json()["layer"]) == ("t(*", "rules")
    assert "`t(a)` is denied by the rule `t(*` (no t)" in str(verdict.problem)


@pytest.mark.parametrize(
    ("policy", "declaration", "given", "change"),
    [
        ({"boundary": "deny_by_default"}, {}, {}, {"rules": [{"pattern": "t(a)", "action": "allow"}]}),
        ({"defaults": [DENY]}, {}, {}, {"rules": [{"pattern": "t(a)", "action": "allow"}]}),
        ({"rules": [ALLOW]}, {"risk": "high"}, {}, {"roles": ("admin",)}),
        ({"rules": [ALLOW]}, {"required_roles": ("admin",)}, {}, {"roles": ("admin",)}),
        ({"rules": [ALLOW]}, {"confirmation_required": True}, {}, {"confirmed": True}),
        ({"rules": [ALLOW], "windows": {"allowed": [{"days": ["thu"]}]}}, {}, {}, {"at": facts().at + 86_400}),
    ],
)
def test_a_deny_names_a_change_that_flips_it(
    policy: Mapping[str, Json], declaration: Any, given: Any, change: dict[str, Any]
) -> None:
    denied = judged(policy, tool(**declaration), **given)
    assert denied.decision is Decision.DENY
    assert denied.problem is not None
    assert denied.problem.suggestion
    as_policy = {key: value for key, value in change.items() if key == "rules"}
    as_fact = {key: value for key, value in change.items() if key != "rules"}
    assert judged({**policy, **as_policy}, tool(**declaration), **given, **as_fact).decision is Decision.ALLOW
    for value in as_fact.values():
        words = value if isinstance(value, tuple) else ()
        assert all(word in denied.problem.suggestion for word in words)


def test_where_several_layers_deny_every_change_that_is_needed_is_named() -> None:
    verdict = judged({"rules": [DENY]}, tool(risk="high", confirmation_required=True))
    assert verdict.problem is not None
    assert verdict.problem.suggestion.split("; and ") == [
        "narrow or remove it",
        "give the agent the role admin",
        "repeat the call with confirmed: true if it is meant",
    ]


def test_where_nobody_can_be_asked_an_ask_is_a_deny_that_says_so() -> None:
    verdict = judged({"rules": [ASK]}, can_ask=False)
    assert (verdict.decision, code(verdict)) == (Decision.DENY, 1001)
    assert "nobody can be asked" in str(verdict.problem)
    assert judged({"rules": [ALLOW]}, can_ask=False).decision is Decision.ALLOW


def test_after_a_no_an_ask_is_a_deny_and_an_allow_stays_one() -> None:
    verdict = judged({"rules": [ASK]}, refused_recently=True)
    assert (verdict.decision, code(verdict)) == (Decision.DENY, 1022)
    assert judged({"rules": [ALLOW]}, refused_recently=True).decision is Decision.ALLOW
    assert code(judged({"rules": [DENY]}, refused_recently=True)) == 1001


def test_an_ask_of_the_rules_alone_can_be_answered_by_anybody_entitled_at_all() -> None:
    assert judged({"rules": [ASK]}).requirement == Requirement()


def test_an_autonomous_agent_s_high_risk_asks_and_confirming_it_is_no_answer() -> None:
    policy = {"rules": [ALLOW], "roles": {"operator": {"max_risk": "high"}}}
    for confirmed in (False, True):
        assert judged(policy, tool(risk="high"), mode=Mode.AUTONOMOUS, confirmed=confirmed).decision is Decision.ASK
    assert judged(policy, tool(risk="high"), mode=Mode.ASSISTED).decision is Decision.ALLOW
    assert judged(policy, tool(risk="medium"), mode=Mode.AUTONOMOUS).decision is Decision.ALLOW


@given(st.integers(0, 2**32))
def test_adding_a_deny_rule_never_turns_a_verdict_into_allow(seed: int) -> None:
    random = Random(seed)
    case = random_policies.case(random)
    rule = random_policies.rule(random) | {"action": "deny"}
    rules = list(case.policy.get("rules", ()))
    rules.insert(random.randint(0, len(rules)), rule)
    before, after = case.verdict(), case.under({**case.policy, "rules": rules}).verdict()
    if after.decision is Decision.ALLOW:
        assert before.decision is Decision.ALLOW
    if before.decision is Decision.DENY:
        assert after.decision is Decision.DENY


@given(st.integers(0, 2**32))
def test_judging_twice_gives_the_same_verdict_and_changes_nothing(seed: int) -> None:
    case = random_policies.case(Random(seed))
    judge = judge_of(case.policy)
    state = canonical(case.facts.state)
    first = judge.decide(case.bound, case.facts, case.declaration)
    assert judge.decide(case.bound, case.facts, case.declaration) == first
    assert canonical(case.facts.state) == state


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(max_size=5),
    lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=3), part, max_size=3),
    max_leaves=6,
)
_calls = st.tuples(
    st.sampled_from(["bot", "bo"]),
    st.sampled_from(["home", "default"]),
    st.sampled_from(["t", "tt"]),
    st.dictionaries(st.text(max_size=3), _json, max_size=3),
    st.lists(st.text(max_size=4), min_size=1, max_size=2),
    st.dictionaries(st.text(max_size=3), _json, max_size=2),
)


class _Keyed:
    def keyed_hash(self, value: bytes) -> str:
        return f"keyed {value!r}"


def _bound_hash(agent_id: str, project: str, name: str, args: Any, signatures: Any, resources: Any) -> str:
    binder = Binder(None, None, None, _Keyed(), can_ask=True)  # type: ignore[arg-type]
    request = CallRequest(Agent(agent_id), name, args, project)
    binding = Binding(tuple(signatures), resources)
    return binder._bound(request, args, "id", ToolDeclaration(name), binding).bound_hash


def _reordered(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _reordered(value[key]) for key in reversed(list(value))}
    return [_reordered(part) for part in value] if isinstance(value, list) else value


@given(_calls, _calls)
def test_two_different_bound_calls_never_share_a_hash_and_the_order_of_keys_is_no_difference(
    one: tuple[Any, ...], other: tuple[Any, ...]
) -> None:
    same = canonical(list(one)) == canonical(list(other))
    assert (_bound_hash(*one) == _bound_hash(*other)) == same
    assert _bound_hash(*(_reordered(part) for part in one)) == _bound_hash(*one)


def test_a_secret_enters_the_bound_hash_by_its_keyed_hash() -> None:
    binder = Binder(None, None, None, _Keyed(), can_ask=True)  # type: ignore[arg-type]
    declaration = ToolDeclaration("t", secret=frozenset({"password"}))

    def hash_with(password: str) -> str:
        args = {"password": password}
        request = CallRequest(Agent("bot"), "t", args)
        return binder._bound(request, args, "id", declaration, Binding(("t",))).bound_hash

    assert hash_with("one") == hash_with("one") != hash_with("two")


@pytest.mark.parametrize(
    ("signature", "code"),
    [
        ("ha_call_service(light.turn_on, light.hall)", None),
        ("ha_call_service(script.turn_on, script.movie_time)", 1009),
        ("ha_call_service(homeassistant.turn_on, light.hall)", None),
        ("ha_call_service(shell_command.restart)", 1009),
    ],
)
def test_a_service_that_reaches_what_nobody_can_know_has_a_high_risk(signature: str, code: int | None) -> None:
    for name in ("ha_call_service", "ha_activate_scene"):
        declaration = tool(name, effect="write", risk="medium")
        problem = judged(
            {"rules": [ALLOW]}, declaration, "ha_call_service(light.turn_on, light.hall)", signature
        ).problem
        assert (problem.code if problem else None) == code


@pytest.mark.parametrize(("edition", "decision"), [(2, "deny"), (3, "allow")])
def test_a_viewer_s_look_at_the_state_is_judged_as_it_was_when_it_was_recorded(edition: int, decision: str) -> None:
    judge = Judge(judge_of({"rules": [ALLOW]}).policy, edition=edition)
    call = bound_call(STATE_GET)
    assert judge.decide(call, facts(roles=("viewer",)), STATE_GET).decision.value == decision


def test_verdicts_that_are_kept_for_the_next_call_like_it_are_bounded_and_stay_right() -> None:
    """An agent that never asks the same thing twice must not fill the memory."""
    judge, declaration = judge_of({"rules": [{"pattern": "t(*7)", "action": "deny"}, ALLOW]}), tool()
    asked = facts(state=None)
    most = 1_024
    for number in range(2 * most + 10):
        verdict = judge.decide(bound_call(declaration, (f"t({number})",)), asked, declaration)
        assert (verdict.decision is Decision.DENY) is (number % 10 == 7)
        assert 0 < len(judge.judged(declaration).verdicts) <= most
    assert len(judge.judged(declaration).verdicts) == 10
    known = judge.decide(bound_call(declaration, ("t(2057)",)), asked, declaration)
    assert known is judge.decide(bound_call(declaration, ("t(2057)",)), asked, declaration)


def test_what_is_kept_of_callers_is_bounded_too() -> None:
    judge, declaration = judge_of({"rules": [ALLOW]}), tool()
    for number in range(600):
        judge.decide(bound_call(declaration), facts(roles=(f"role-{number}",)), declaration)
        assert 0 < len(judge.judged(declaration)._caller_layers) <= 256

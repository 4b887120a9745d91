"""Whatever a request says of itself can only make its verdict stricter."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agent_gate.model.call import Agent, CallRequest, Facts
from agent_gate.model.change import FileChange
from agent_gate.model.tool import Mode
from agent_gate.model.verdict import Decision, Requirement, Verdict
from agent_gate.tools.files import FS_WRITE
from tests.unit.policy import random_policies
from tests.unit.policy.judging import ALLOW, answers, bound_call, code, facts, judge_of, judged, tool

STRICTNESS = (Decision.ALLOW, Decision.ASK, Decision.DENY)
HIGH = tool(risk="high")


def _strictness(verdict: Verdict) -> int:
    return STRICTNESS.index(verdict.decision)


def _as_named(own: Mode, named: Mode | None) -> Facts:
    mode, ceiling = CallRequest(Agent("bot", mode=own), "t", {}, mode=named).modes
    return facts(roles=("admin",), mode=mode, ceiling=ceiling)


@pytest.mark.parametrize("named", [None, *Mode])
def test_an_autonomous_agent_is_asked_about_high_risk_whatever_mode_it_names(named: Mode | None) -> None:
    verdict = judge_of({"rules": [ALLOW]}).decide(bound_call(HIGH), _as_named(Mode.AUTONOMOUS, named), HIGH)
    assert verdict.decision is Decision.ASK
    assert answers(verdict)["risk"] == "ask"


@pytest.mark.parametrize("own", list(Mode))
@pytest.mark.parametrize("named", list(Mode))
def test_a_request_names_no_mode_above_the_agents_own(own: Mode, named: Mode) -> None:
    mode, ceiling = CallRequest(Agent("bot", mode=own), "t", {}, mode=named).modes
    assert mode.rank <= own.rank
    assert ceiling is (None if mode is own else own)


@given(st.integers(0, 2**48), st.sampled_from(Mode), st.sampled_from((None, *Mode)))
def test_naming_a_mode_never_makes_a_verdict_milder(seed: int, own: Mode, named: Mode | None) -> None:
    case = random_policies.case(Random(seed))
    mode, ceiling = CallRequest(Agent("bot", mode=own), "t", {}, mode=named).modes
    judge = judge_of(case.policy)
    silent = judge.decide(case.bound, replace(case.facts, mode=own, ceiling=None), case.declaration)
    said = judge.decide(case.bound, replace(case.facts, mode=mode, ceiling=ceiling), case.declaration)
    assert _strictness(said) >= _strictness(silent)


@given(st.integers(0, 2**48))
def test_confirming_satisfies_the_confirmation_and_nothing_else(seed: int) -> None:
    case = random_policies.case(Random(seed))
    judge = judge_of(case.policy)
    silent = judge.decide(case.bound, replace(case.facts, confirmed=False), case.declaration)
    said = judge.decide(case.bound, replace(case.facts, confirmed=True), case.declaration)
    if _strictness(said) < _strictness(silent):
        denying = [layer for layer, answer in answers(silent).items() if answer == "deny"]
        assert denying == ["confirmation"]


@pytest.mark.parametrize(
    "policy",
    [
        {"rules": [{**ALLOW, "when": "confirmed"}]},
        {"rules": [ALLOW, {"pattern": "*", "action": "deny", "when": "not confirmed"}]},
        {"rules": [ALLOW], "declare": {"t": {"preconditions": ["confirmed"]}}},
    ],
)
def test_a_condition_is_not_fulfilled_by_a_confirmation(policy: dict[str, object]) -> None:
    assert judged(policy, confirmed=True).decision is judged(policy, confirmed=False).decision
    assert judged(policy, confirmed=True).decision is not Decision.ALLOW


def test_a_condition_that_asks_for_more_of_what_is_confirmed_is_heard() -> None:
    policy = {"rules": [ALLOW, {"pattern": "*", "action": "deny", "when": "confirmed"}]}
    assert judged(policy, confirmed=False).decision is Decision.ALLOW
    assert code(judged(policy, confirmed=True)) == 1001


@pytest.mark.parametrize("said", [{"mode": Mode.INTERACTIVE, "ceiling": Mode.AUTONOMOUS}, {"confirmed": True}])
def test_what_a_command_wrote_is_judged_without_what_the_request_says_too(said: dict[str, object]) -> None:
    when = "confirmed or mode == 'interactive'"
    judge = judge_of(
        {
            "rules": [{"pattern": "fs.write(*)", "action": "deny", "when": f"not ({when})"}],
            "tools": {"fs.write": {"allow_paths": ["/w/**"]}, "shell.run": {"allow_executables": ["touch"]}},
        }
    )
    bound = bound_call(tool("shell.run"))
    changes = [FileChange("/w/a", "added", 1, {"type": "file", "size": 1})]
    verdict = judge.decide_changes(bound, facts(**said), changes, Requirement(), FS_WRITE)
    assert verdict.decision is Decision.DENY


def test_the_agents_own_mode_is_recorded_where_another_was_named() -> None:
    told = _as_named(Mode.AUTONOMOUS, Mode.ASSISTED)
    recorded = told.to_json(asking_mattered=False)
    assert recorded["ceiling"] == "autonomous"
    assert Facts.from_json(recorded, told.at).readings[1].mode is Mode.AUTONOMOUS
    assert "ceiling" not in _as_named(Mode.AUTONOMOUS, None).to_json(asking_mattered=False)

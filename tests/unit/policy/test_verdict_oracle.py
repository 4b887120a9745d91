"""The judge and the simple evaluator agree on whole policies: decision, code, what each layer said, who must agree."""

from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from agent_gate.model.verdict import Decision, Verdict
from tests.unit.policy import random_policies
from tests.unit.policy.judging import answers, code
from tests.unit.policy.verdict_oracle import Opinion, opinion

STRICTNESS = (Decision.ALLOW, Decision.ASK, Decision.DENY)


def _as_opinion(verdict: Verdict) -> Opinion:
    asks = verdict.decision is Decision.ASK
    return Opinion(
        verdict.decision.value,
        code(verdict),
        answers(verdict),
        frozenset(verdict.requirement.approver_roles) if asks else frozenset(),
        verdict.requirement.approvers_required if asks else 1,
    )


@given(st.lists(st.integers(0, 2**48), min_size=5, max_size=5))
def test_the_judge_equals_the_oracle(seeds: list[int]) -> None:
    for seed in seeds:
        case = random_policies.case(Random(seed))
        assert _as_opinion(case.verdict()) == opinion(case.policy, case.call()), (seed, case)


@given(st.lists(st.tuples(st.integers(0, 2**48), st.integers(0, 2**48)), min_size=5, max_size=5))
def test_another_layer_never_makes_a_verdict_less_strict(seeds: list[tuple[int, int]]) -> None:
    """Held against the judge alone: what was said before is compared with what is said with more to be heeded."""
    for seed, more in seeds:
        case = random_policies.case(Random(seed))
        for layer, stricter in random_policies.with_more(case, Random(more)):
            before, after = case.verdict().decision, stricter.verdict().decision
            assert STRICTNESS.index(before) <= STRICTNESS.index(after), (seed, more, layer, stricter)


def test_more_layers_turn_every_answer_into_each_stricter_one() -> None:
    """A comparison is worth what it compares."""
    seen: Counter[tuple[str, str]] = Counter()
    layers: set[str] = set()
    for seed in range(1_500):
        case = random_policies.case(Random(seed))
        before = opinion(case.policy, case.call()).decision
        for layer, stricter in random_policies.with_more(case, Random(seed)):
            after = opinion(stricter.policy, stricter.call()).decision
            seen[before, after] += 1
            if before != after:
                layers.add(layer)
    assert {pair for pair, times in seen.items() if times >= 5} == {
        ("allow", "allow"), ("allow", "ask"), ("allow", "deny"), ("ask", "ask"), ("ask", "deny"), ("deny", "deny"),
    }  # fmt: skip
    assert layers == set(random_policies.LAYERS)


def test_the_random_policies_reach_every_answer() -> None:
    """A comparison is worth what it compares."""
    seen: Counter[str] = Counter()
    for seed in range(3_000):
        case = random_policies.case(Random(seed))
        found = opinion(case.policy, case.call())
        seen.update((found.decision, f"code {found.code}", *(f"{layer} {said}" for layer, said in found.said.items())))
        seen.update(f"quorum {found.approvers_required}" for _ in range(found.decision == "ask"))
    expected = {"allow", "ask", "deny", "quorum 1", "quorum 2", "quorum 3"}
    expected |= {f"code {number}" for number in (None, 1001, 1007, 1009, 1010, 1011, 1012, 1013, 1014, 1022)}
    expected |= {f"rules {said}" for said in ("allow", "ask", "deny")}
    expected |= {f"guard {said}" for said in ("allow", "ask", "deny")} | {"code 1002", "code 1021"}
    expected |= {f"aliases {said}" for said in ("ask", "deny")}
    expected |= {f"defaults {said}" for said in ("allow", "ask", "deny")}
    expected |= {"boundary deny", "fallback ask", "risk ask", "approvals ask", "approvals deny", "cooldown deny"}
    expected |= {f"{layer} deny" for layer in ("roles", "confirmation", "preconditions", "windows", "limits")}
    assert {answer for answer in expected if seen[answer] < 5} == set()

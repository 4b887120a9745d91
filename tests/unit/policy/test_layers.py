"""Each layer beside the rules: what it refuses, with which code, and what it says."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_gate.model.call import NO_USAGE, Usage
from agent_gate.model.charge import Charge
from agent_gate.model.limit import CountedCall
from agent_gate.model.roles import roles_that_include
from agent_gate.model.tool import Json, Mode
from agent_gate.model.verdict import Decision, Requirement
from agent_gate.policy.limits import charges_for, counted, limits_set, outstanding, zone_of
from tests.unit.policy.judging import ALLOW, NOON, code, judge_of, judged, tool

ALLOWED: Mapping[str, Json] = {"rules": [ALLOW]}


@pytest.mark.parametrize("effect", ["none", "read", "write"])
@pytest.mark.parametrize("risk", ["low", "medium", "high"])
@pytest.mark.parametrize(
    ("roles", "effects", "risks"),
    [
        ((), "", ""),
        (("guest",), "", ""),
        (("viewer",), "read", "low"),
        (("operator",), "none read write", "low medium"),
        (("admin",), "none read write", "low medium high"),
        (("guest", "admin"), "none read write", "low medium high"),
    ],
)
def test_the_ordinary_roles(effect: str, risk: str, roles: tuple[str, ...], effects: str, risks: str) -> None:
    verdict = judged(ALLOWED, tool(effect=effect, risk=risk), roles=roles)
    may = effect in effects.split() and risk in risks.split()
    assert (verdict.decision, code(verdict)) == ((Decision.ALLOW, None) if may else (Decision.DENY, 1009))


def test_one_role_must_reach_both_effect_and_risk() -> None:
    policy = {**ALLOWED, "roles": {"bold": {"max_risk": "high", "effects": ["read"]}}}
    assert code(judged(policy, tool(effect="write", risk="high"), roles=("bold", "operator"))) == 1009
    assert judged(policy, tool(effect="read", risk="high"), roles=("bold", "operator")).decision is Decision.ALLOW


def test_roles_of_the_policy_change_and_add_to_the_ordinary_ones() -> None:
    policy = {**ALLOWED, "roles": {"viewer": {"max_risk": "medium"}, "chef": {"max_risk": "low"}}}
    assert judged(policy, tool(risk="medium"), roles=("viewer",)).decision is Decision.ALLOW
    assert code(judged(policy, tool(effect="write", risk="medium"), roles=("viewer",))) == 1009
    assert judged(policy, tool(effect="write"), roles=("chef",)).decision is Decision.ALLOW
    assert judged(policy, tool(effect="write", risk="high"), roles=("admin",)).decision is Decision.ALLOW


def test_a_tool_may_require_one_of_some_roles_and_the_role_must_still_reach_it() -> None:
    needs = tool(required_roles=("admin", "chef"))
    assert code(judged(ALLOWED, needs)) == 1009
    assert judged(ALLOWED, needs, roles=("admin",)).decision is Decision.ALLOW
    assert code(judged(ALLOWED, needs, roles=("chef",))) == 1009
    verdict = judged(ALLOWED, needs)
    assert "needs one of the roles admin, chef; the agent has operator" in str(verdict.problem)
    assert "no role" in str(judged(ALLOWED, needs, roles=()).problem)


def test_a_refusal_by_role_names_a_role_that_may() -> None:
    assert "give the agent the role admin" in str(judged(ALLOWED, tool(risk="high")).problem)
    policy = {**ALLOWED, "roles": {"admin": {"max_risk": "low"}}}
    assert "define a role" in str(judged(policy, tool(risk="high")).problem)


def test_what_must_be_confirmed_is_denied_until_it_is() -> None:
    needs = tool(confirmation_required=True)
    assert code(judged(ALLOWED, needs)) == 1010
    assert judged(ALLOWED, needs, confirmed=True).decision is Decision.ALLOW


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("risk", ["low", "medium", "high"])
def test_only_high_risk_of_an_autonomous_agent_asks(mode: Mode, risk: str) -> None:
    asks = mode is Mode.AUTONOMOUS and risk == "high"
    verdict = judged(ALLOWED, tool(risk=risk), mode=mode, roles=("admin",))
    assert verdict.decision is (Decision.ASK if asks else Decision.ALLOW)


@pytest.mark.parametrize(
    ("conditions", "words"),
    [
        (("state['open']",), ""),
        (("state['open']", "inputs['n'] == 1"), ""),
        (("not state['open']",), "does not hold"),
        (("state['open']", "inputs['n'] == 2"), "does not hold"),
        (("state['closed']",), "cannot be judged"),
        (("inputs['n']",), "cannot be judged"),
    ],
)
def test_preconditions_hold_or_deny(conditions: tuple[str, ...], words: str) -> None:
    verdict = judged(ALLOWED, tool(preconditions=conditions), args={"n": 1}, state={"open": True})
    assert (verdict.decision, code(verdict)) == ((Decision.DENY, 1011) if words else (Decision.ALLOW, None))
    if words:
        assert words in str(verdict.problem)
        assert f"`{conditions[-1]}`" in str(verdict.problem)


def _at(text: str, zone: str = "UTC") -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


@pytest.mark.parametrize(
    ("window", "moment", "open_"),
    [
        ({"hours": ["08:00", "18:00"]}, "2026-03-04T08:00", True),
        ({"hours": ["08:00", "18:00"]}, "2026-03-04T17:59:59", True),
        ({"hours": ["08:00", "18:00"]}, "2026-03-04T18:00", False),
        ({"hours": ["08:00", "18:00"]}, "2026-03-04T07:59:59", False),
        ({"days": ["wed"]}, "2026-03-04T23:59", True),
        ({"days": ["wed"]}, "2026-03-05T00:00", False),
        ({"days": ["wed"], "hours": ["22:00", "06:00"]}, "2026-03-04T22:00", True),
        ({"days": ["wed"], "hours": ["22:00", "06:00"]}, "2026-03-05T05:59", True),
        ({"days": ["wed"], "hours": ["22:00", "06:00"]}, "2026-03-05T06:00", False),
        ({"days": ["wed"], "hours": ["22:00", "06:00"]}, "2026-03-04T05:00", False),
        ({"days": ["wed"], "hours": ["22:00", "06:00"]}, "2026-03-05T22:30", False),
        ({"days": ["sun"], "hours": ["22:00", "06:00"]}, "2026-03-09T05:00", True),
        ({"days": ["wed"], "hours": ["18:00", "24:00"]}, "2026-03-04T23:59", True),
        ({"days": ["wed"], "hours": ["18:00", "24:00"]}, "2026-03-05T00:00", False),
    ],
)
def test_windows_are_open_from_their_first_minute_to_before_their_last(
    window: Mapping[str, Json], moment: str, open_: bool
) -> None:
    verdict = judged({**ALLOWED, "windows": {"allowed": [window]}}, at=_at(moment))
    assert (verdict.decision, code(verdict)) == ((Decision.ALLOW, None) if open_ else (Decision.DENY, 1014))


def test_any_one_window_is_enough() -> None:
    windows = {"allowed": [{"days": ["sun"]}, {"days": ["wed"], "hours": ["11:00", "13:00"]}]}
    assert judged({**ALLOWED, "windows": windows}).decision is Decision.ALLOW
    assert "sun 00:00-24:00; wed 11:00-13:00" in str(judged({**ALLOWED, "windows": windows}, at=NOON + 7200).problem)


def test_windows_are_those_of_the_policy_s_time_zone_in_summer_and_in_winter() -> None:
    policy = {**ALLOWED, "timezone": "Europe/Berlin", "windows": {"allowed": [{"hours": ["08:00", "09:00"]}]}}
    for utc, open_ in (("2026-01-15T07:30", True), ("2026-07-15T06:30", True), ("2026-07-15T07:30", False)):
        assert (judged(policy, at=_at(utc)).decision is Decision.ALLOW) == open_


@pytest.mark.parametrize(
    ("limits", "usage", "cost", "expected"),
    [
        ({"rate": {"per_minute": 2}}, {"minute": 1}, 0, None),
        ({"rate": {"per_minute": 2}}, {"minute": 2}, 0, 1012),
        ({"rate": {"per_hour": 2}}, {"hour": 2}, 0, 1012),
        ({"rate": {"per_hour": 2}}, {"minute": 9, "hour": 1}, 0, None),
        ({"budget": {"daily": 5}}, {"spent_today": 3}, 2, None),
        ({"budget": {"daily": 5}}, {"spent_today": 3.5}, 2, 1013),
        ({"budget": {"daily": 5}}, {"spent_today": 9}, 0, None),
        ({"budget": {"daily": 5}}, NO_USAGE, 6, 1013),
    ],
)
def test_limits_leave_room_for_this_call_or_deny(
    limits: Mapping[str, Json], usage: Usage, cost: float, expected: int | None
) -> None:
    assert code(judged({**ALLOWED, "limits": limits}, tool(cost=cost), usage=usage)) == expected


def test_the_quota_of_a_tool_counts_only_within_a_run() -> None:
    policy = {**ALLOWED, "max_calls_per_tool": 2}
    assert code(judged(policy, run_id="run", usage={"calls_of_tool_in_run": 2})) == 1007
    assert code(judged(policy, run_id="run", usage={"calls_of_tool_in_run": 1})) is None
    assert code(judged(policy, usage={"calls_of_tool_in_run": 2})) is None


def test_the_budget_s_day_is_that_of_the_time_zone() -> None:
    policy = judge_of({**ALLOWED, "limits": {"budget": {"daily": 5}}}).policy

    def day(moment: str, zone: str) -> int:
        [charge] = charges_for(limits_set(policy), CountedCall(_at(moment), zone_of(zone), "t", 1, None))
        return charge.bucket

    assert day("2026-03-04T23:30", "UTC") + 1 == day("2026-03-05T00:30", "UTC")
    assert day("2026-03-04T22:30", "Europe/Berlin") == day("2026-03-04T10:00", "Europe/Berlin")
    assert day("2026-03-04T23:30", "Europe/Berlin") == day("2026-03-05T00:30", "UTC")


def test_a_policy_without_limits_charges_nothing() -> None:
    assert charges_for(limits_set(judge_of(ALLOWED).policy), CountedCall(NOON, zone_of("UTC"), "t", 5, "run")) == ()


def _charge(scope: str, bucket: int, amount: float = 1, window: int = 60) -> Charge:
    return Charge(scope, bucket, window, amount, 10, 1012)


def test_what_was_reserved_and_still_counts_is_not_charged_again() -> None:
    due = (_charge("minute", 100), _charge("budget", 7, 5, 1))
    assert outstanding(due, ()) == due
    assert outstanding(due, (_charge("minute", 41), _charge("budget", 7, 5, 1))) == ()
    assert outstanding(due, (_charge("minute", 40), _charge("budget", 6, 5, 1))) == due
    assert outstanding(due, (_charge("minute", 100), _charge("budget", 7, 3, 1))) == (_charge("budget", 7, 2, 1),)


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 20), st.integers(1, 3)), max_size=6), st.integers(0, 20)
)
def test_reserved_and_outstanding_together_make_up_the_charge(
    reserved: list[tuple[str, int, int]], bucket: int
) -> None:
    held = tuple(_charge(scope, at, amount, 5) for scope, at, amount in reserved)
    due = (_charge("a", bucket, 4, 5),)
    owed = outstanding(due, held)
    total = counted(due[0], held) + sum(charge.amount for charge in owed)
    assert total >= 4
    assert total == 4 or not owed


@pytest.mark.parametrize(
    ("rules", "fields", "requirement"),
    [
        ([{"min_cost": 50}], {"cost": 49}, None),
        ([{"min_cost": 50}], {"cost": 50}, Requirement()),
        ([{"risk": "medium"}], {"risk": "low"}, None),
        ([{"risk": "medium"}], {"risk": "medium"}, Requirement()),
        ([{"risk": "medium"}], {"risk": "high"}, Requirement()),
        ([{"risk": "high", "min_cost": 50}], {"risk": "high", "cost": 1}, None),
        ([{"risk": "high", "min_cost": 50}], {"risk": "high", "cost": 50}, Requirement()),
        ([{"min_cost": 1, "unless_role": "admin"}], {"cost": 1}, None),
        ([{"min_cost": 1, "unless_role": "operator"}], {"cost": 1}, Requirement()),
        ([{"min_cost": 1, "approver_role": "admin", "approvers_required": 2}], {"cost": 1}, Requirement(("admin",), 2)),
        (
            [{"min_cost": 1, "approver_role": "operator"}, {"risk": "low", "approvers_required": 3}],
            {"cost": 1},
            Requirement(("operator",), 3),
        ),
        (
            [{"min_cost": 1, "approver_role": "operator"}, {"min_cost": 1, "approver_role": "admin"}],
            {"cost": 1},
            Requirement(("admin",)),
        ),
        (
            [{"min_cost": 1, "approver_role": "chef"}, {"min_cost": 1, "approver_role": "admin"}],
            {"cost": 1},
            Requirement(("admin", "chef")),
        ),
    ],
)
def test_approvals_ask_from_a_cost_or_risk_on_and_who_agrees_must_satisfy_every_rule(
    rules: list[Json], fields: dict[str, Any], requirement: Requirement | None
) -> None:
    policy = {**ALLOWED, "approvals": rules, "roles": {"chef": {"max_risk": "low"}}}
    verdict = judged(policy, tool(**fields), roles=("admin",))
    assert (verdict.decision is Decision.ASK) == (requirement is not None)
    assert verdict.requirement == (requirement or Requirement())


def test_an_admin_is_an_operator_and_a_viewer_too_and_an_own_role_is_only_itself() -> None:
    assert roles_that_include("viewer") == ("viewer", "operator", "admin")
    assert roles_that_include("admin") == ("admin",)
    assert roles_that_include("chef") == ("chef",)

"""Kinds of limits: each is what its declaration says."""

from __future__ import annotations

from datetime import timezone

import pytest

from agent_gate.model.charge import Charge
from agent_gate.model.errors import Problem
from agent_gate.model.limit import LAST_HOUR, Always, CountedCall, Counts, Day, Limit, Scope, Window
from agent_gate.model.policy import LIMITS

NOON = 1_772_625_600.0  # 2026-03-04
PER_TOOL = Limit(
    "tool_hour", Scope.TOOL, LAST_HOUR, Counts.CALLS, 1012, "{used:g} calls of `{tool}`, of {limit:g} allowed"
)


def call(cost: float = 0, run_id: str | None = None) -> CountedCall:
    return CountedCall(NOON, timezone.utc, "mail.send", cost, run_id)


def test_a_kind_that_is_new_is_charged_and_told_by_its_declaration_alone() -> None:
    charge = PER_TOOL.charge(5, call())
    assert charge == Charge("tool_hour:mail.send", int(NOON // 60), 60, 1, 5, 1012)
    assert PER_TOOL.no_room(charge, 5, "limits.rate.per_tool") == Problem(
        1012, "5 calls of `mail.send`, of 5 allowed", "raise limits.rate.per_tool", "decide"
    )


@pytest.mark.parametrize(
    ("scope", "window", "amount", "counted", "expected"),
    [
        (Scope.PROJECT, Day(), Counts.COST, call(cost=2.5), Charge("x", 739_679, 1, 2.5, 9, 1013)),
        (Scope.PROJECT, Day(), Counts.COST, call(cost=0), None),
        (Scope.TOOL_IN_RUN, Always(), Counts.CALLS, call(run_id="r"), Charge("x:r:mail.send", 0, 1, 1, 9, 1013)),
        (Scope.TOOL_IN_RUN, Always(), Counts.CALLS, call(run_id=None), None),
    ],
    ids=["a cost", "no cost", "in a run", "outside of runs"],
)
def test_a_call_counts_within_the_scope_the_window_and_the_amount(
    scope: Scope, window: Window, amount: Counts, counted: CountedCall, expected: Charge | None
) -> None:
    assert Limit("x", scope, window, amount, 1013, "").charge(9, counted) == expected


def test_the_keys_and_recorded_names_of_limits_are_those_of_the_documents() -> None:
    assert {name: (one.key, one.limit.recorded_as, one.limit.code) for name, one in LIMITS.items()} == {
        "minute": ("limits.rate.per_minute", "minute", 1012),
        "hour": ("limits.rate.per_hour", "hour", 1012),
        "budget": ("limits.budget.daily", "spent_today", 1013),
        "run": ("max_calls_per_tool", "calls_of_tool_in_run", 1007),
    }

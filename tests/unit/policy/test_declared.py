"""`declare` speaks for tools that nobody describes, and makes others only stricter."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent_gate.model.policy import Declare
from agent_gate.model.tool import Effect, Risk, ToolDeclaration
from agent_gate.policy.declared import declared, unregistered

STRICT = Declare("*", Effect.WRITE, Risk.HIGH, 7, ("admin",), True, ("confirmed",))
LAX = Declare("*", Effect.READ, Risk.LOW, 0, (), False, ())


def test_a_tool_that_nobody_describes_is_taken_for_a_write_of_medium_risk() -> None:
    tool = unregistered("github_push")
    assert (tool.effect, tool.risk, tool.cost, tool.registered) == (Effect.WRITE, Risk.MEDIUM, 1, False)


def test_for_such_a_tool_the_policy_has_the_say_either_way() -> None:
    tool = declared(unregistered("github_push"), [LAX])
    assert (tool.effect, tool.risk, tool.cost) == (Effect.READ, Risk.LOW, 0)
    tool = declared(tool, [STRICT])
    assert (tool.effect, tool.risk, tool.cost, tool.required_roles) == (Effect.WRITE, Risk.HIGH, 7, ("admin",))


def test_a_tool_that_describes_itself_becomes_stricter() -> None:
    tool = ToolDeclaration("t", effect=Effect.READ, risk=Risk.LOW, cost=1, preconditions=("cost < 5",))
    stricter = declared(tool, [STRICT])
    assert (stricter.effect, stricter.risk, stricter.cost) == (Effect.WRITE, Risk.HIGH, 7)
    assert (stricter.required_roles, stricter.confirmation_required) == (("admin",), True)
    assert stricter.preconditions == ("cost < 5", "confirmed")


def test_a_tool_that_describes_itself_never_becomes_laxer() -> None:
    tool = ToolDeclaration("t", effect=Effect.WRITE, risk=Risk.HIGH, cost=5, confirmation_required=True)
    laxer = declared(tool, [LAX])
    assert (laxer.effect, laxer.risk, laxer.cost, laxer.confirmation_required) == (Effect.WRITE, Risk.HIGH, 5, True)


def test_roles_that_both_require_must_be_had_and_where_there_are_none_nobody_may() -> None:
    tool = ToolDeclaration("t", required_roles=("admin", "chef"))
    assert declared(tool, [Declare("t", required_roles=("chef", "cook"))]).required_roles == ("chef",)
    [nobody] = declared(tool, [Declare("t", required_roles=("cook",))]).required_roles
    assert nobody not in ("admin", "chef", "cook")


def test_a_pure_tool_stays_pure() -> None:
    tool = ToolDeclaration("t", effect=Effect.NONE)
    assert declared(tool, [STRICT]).effect is Effect.NONE


def test_only_what_matches_by_name_counts_and_every_match_does() -> None:
    tool = ToolDeclaration("github_push", cost=1)
    declares = [Declare("gitlab_*", cost=9), Declare("github_*", cost=3), Declare("*_push", cost=2, risk=Risk.HIGH)]
    found = declared(tool, declares)
    assert (found.cost, found.risk) == (3, Risk.HIGH)
    assert declared(tool, []) is tool


_declares = st.builds(
    Declare,
    st.sampled_from(("*", "t", "u*")),
    st.none() | st.sampled_from(list(Effect)),
    st.none() | st.sampled_from(list(Risk)),
    st.none() | st.integers(0, 9),
    st.none() | st.lists(st.sampled_from(("admin", "chef")), max_size=2).map(tuple),
    st.none() | st.booleans(),
    st.none() | st.lists(st.sampled_from(("confirmed", "cost < 3")), max_size=2).map(tuple),
)


@given(st.lists(_declares, max_size=4), st.sampled_from(list(Effect)), st.sampled_from(list(Risk)))
def test_no_policy_makes_a_tool_that_describes_itself_laxer(
    declares: list[Declare], effect: Effect, risk: Risk
) -> None:
    tool = ToolDeclaration(
        "t", effect=effect, risk=risk, cost=2, required_roles=("admin",), preconditions=("confirmed",)
    )
    found = declared(tool, declares)
    order = [Effect.NONE, Effect.READ, Effect.WRITE]
    assert order.index(found.effect) >= order.index(tool.effect)
    assert found.risk.rank >= tool.risk.rank
    assert found.cost >= tool.cost
    assert set(found.required_roles) <= {"admin", ""}
    assert found.required_roles
    assert found.preconditions[:1] == tool.preconditions

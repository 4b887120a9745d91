"""What agents are told of a call that fails is in words: no name of a type or an exception of ours or of a library."""

from __future__ import annotations

import re
from itertools import count
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_gate.gate.plans import run_plan
from agent_gate.model.errors import GateError
from agent_gate.model.plan import Plan, PlanStep
from tests.gates import a_gate
from tests.unit.policy.test_state_aliases import CALLS, STATES, VALUES

INTERNAL = re.compile(
    r"<class|object at 0x|Traceback|EndOfList|\b\w*(Error|Exception|Failed|Conflict)\b|Json(Pointer|Patch)|NoneType"
    r"|\b(dict|str|int|float|bool|list) object|__\w+__|\bmember '"
)
ODD_PATHS = st.sampled_from(
    ["/list/-", "/list/-/x", "/list/01", "/list/-1", "/list/1e0", "/list/\u0661", "/list/0/0", "/list/" + "9" * 5_000,
     "/text/0", "/nothing/x", "/none/x", "/number/0", "//", "/~", "/~2", "~", "a..b", ".", "list.-"]
)  # fmt: skip
NUMBERS = count()
STATE: dict[str, Any] = {"list": [1, {"a": 2}], "text": "words", "none": None, "number": 7, "deep": {"er": {}}}
ODD_CALLS = st.one_of(
    st.builds(lambda path: ("state.get", {"path": path}), ODD_PATHS),
    st.builds(lambda path: ("state.delete", {"path": path}), ODD_PATHS),
    st.builds(lambda path, value: ("state.set", {"path": path, "value": value}), ODD_PATHS, VALUES),
    st.builds(
        lambda op, path, source: ("state.patch", {"patch": [{"op": op, "path": path, "from": source, "value": 1}]}),
        st.sampled_from(("add", "remove", "replace", "move", "copy", "test", "jump", None, 1)),
        ODD_PATHS | st.sampled_from((None, 1, [])),
        ODD_PATHS | st.sampled_from((None, 1, [])),
    ),
    st.builds(lambda operation: ("state.patch", {"patch": [operation]}), st.dictionaries(st.just("op"), VALUES)),
    st.builds(lambda snapshot: ("state.revert", {"snapshot_id": snapshot}), st.sampled_from(("", "x", "-", "a/b"))),
    st.builds(lambda call: ("gate.revert", {"call_id": call}), st.sampled_from(("", "x", "-", "a/b"))),
    st.builds(lambda value: ("state.get", {"path": value}), VALUES),
    st.builds(lambda value: ("state.set", value if isinstance(value, dict) else {"value": value}), VALUES),
    st.builds(lambda value: ("state.patch", {"patch": value}), VALUES),
)


async def told(place: Path, state: Any, calls: list[tuple[str, Any]]) -> list[str]:
    async with a_gate(place, name=f"{next(NUMBERS)}.db") as gate:
        await gate.call("state.set", path="", value=state)
        outcomes = [await gate.call(name, args) for name, args in calls]
        steps = [PlanStep("state.get", {"path": ""}, id="g"), *(PlanStep(name, args) for name, args in calls)]
        try:
            outcomes += (await run_plan(gate, Plan(tuple(steps)), fail_fast=False)).outcomes
        except GateError as error:
            return [str(error)]
    return [f"{outcome.message} {outcome.error or ''}" for outcome in outcomes]


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(ODD_CALLS, min_size=20, max_size=20), st.lists(CALLS, min_size=10, max_size=10), STATES)
async def test_failures_of_state_and_plan_tools_are_told_in_plain_words(
    tmp_path: Path, odd: list[tuple[str, Any]], calls: list[tuple[str, Any]], state: Any
) -> None:
    words = [*await told(tmp_path, STATE, odd), *await told(tmp_path, state, calls)]
    assert [text for text in words if INTERNAL.search(text)] == []


REFERENCES = st.sampled_from(
    ("list.-", "list.x", "list.7", "text.a", "none.a", "number.0", "", "deep.er.x", "list.0.0", "..", "missing")
)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(REFERENCES, min_size=5, max_size=5))
async def test_references_that_lead_nowhere_are_told_in_plain_words(tmp_path: Path, references: list[str]) -> None:
    calls = [("state.set", {"path": "/x", "value": f"${{steps.g.data.{path}}}"}) for path in references]
    assert [text for text in await told(tmp_path, STATE, calls) if INTERNAL.search(text)] == []

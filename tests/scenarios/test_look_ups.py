"""No name is looked up before the call is allowed or a person has agreed to it, whatever asks and whoever looks."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_gate.config import load_policy
from agent_gate.gate.plans import run_plan
from agent_gate.model.call import CallRequest
from agent_gate.model.outcome import Status
from agent_gate.model.plan import Plan, PlanStep
from agent_gate.model.tool import Mode
from agent_gate.model.verdict import Decision
from agent_gate.policy.judge import Judge
from agent_gate.tools.check import Looked, check_call
from tests.gates import ANNA, HandClock, agent
from tests.web import PUBLIC, Web, a_gate_to

URL, HOST = "https://told.example.org/x", "told.example.org"
LISTED: dict[str, Any] = {"tools": {"http.get": {"allow_domains": ["*"]}}}
UNLISTED: dict[str, Any] = {"tools": {"http.get": {"allow_domains": ["other.org"], "otherwise": "ask"}}}
ALLOW = {"pattern": "*", "action": "allow"}
ASKS: dict[str, dict[str, Any]] = {
    "a rule": {**LISTED, "rules": [{"pattern": "http.get(*)", "action": "ask"}]},
    "a rule with a condition": {**LISTED, "rules": [{"pattern": "*", "action": "ask", "when": "hour >= 0"}]},
    "the guard": UNLISTED,
    "the guard beside a default that allows": {**UNLISTED, "defaults": [ALLOW]},
    "approvals by cost": {**LISTED, "rules": [ALLOW], "approvals": [{"min_cost": 0}]},
    "approvals by a declared cost": {**LISTED, "declare": {"http.*": {"cost": 9}}, "approvals": [{"min_cost": 9}]},
    "approvals by risk": {**LISTED, "approvals": [{"risk": "low", "approver_role": "admin"}]},
    "approvals unless another role": {**LISTED, "approvals": [{"min_cost": 0, "unless_role": "viewer"}]},
    "risk": {**LISTED, "rules": [ALLOW], "declare": {"http.get": {"risk": "high"}}},
    "several": {**UNLISTED, "rules": [{"pattern": "*", "action": "ask"}], "approvals": [{"risk": "low"}]},
}
DENIES: dict[str, dict[str, Any]] = {
    "a rule": {**LISTED, "rules": [{"pattern": "http.get(*)", "action": "deny"}]},
    "a condition that cannot be judged": {**LISTED, "rules": [{**ALLOW, "when": "inputs['x']"}]},
    "the guard": {"tools": {"http.get": {"allow_domains": ["other.org"]}}},
    "no section": {"rules": [ALLOW]},
    "roles": {**LISTED, "declare": {"http.get": {"required_roles": ["viewer"]}}},
    "confirmation": {**LISTED, "declare": {"http.get": {"confirmation_required": True}}},
    "preconditions": {**LISTED, "declare": {"http.get": {"preconditions": ["get(state, 'ready', False)"]}}},
    "windows": {**LISTED, "windows": {"allowed": [{"hours": ["00:00", "00:01"]}]}},
    "the budget": {**LISTED, "declare": {"http.get": {"cost": 9}}, "limits": {"budget": {"daily": 1}}},
}
NUMBERS = count()
CAUTIOUS = agent("bot", roles=("admin",), mode=Mode.AUTONOMOUS)


def a_web() -> Web:
    web = Web()
    web.names = {HOST: [[PUBLIC]]}
    web.pages = {URL: {"body": "hello"}}
    return web


def gate_to(web: Web, policy: dict[str, Any], place: Path) -> Any:
    return a_gate_to(web, policy, place / "gate.db", agent=CAUTIOUS, can_ask=True, clock=HandClock())


def request() -> CallRequest:
    return CallRequest(CAUTIOUS, "http.get", {"url": URL})


@pytest.mark.parametrize("source", ASKS)
async def test_whatever_asks_nothing_is_looked_up_before_the_yes(tmp_path: Path, source: str) -> None:
    web = a_web()
    async with gate_to(web, ASKS[source], tmp_path) as gate:
        outcome = await gate.call("http.get", {"url": URL}, wait=False)
        assert outcome.status is Status.PENDING_APPROVAL
        await gate.simulate(request(), with_reads=True, with_previews=True)
        await gate.explain(request())
        plan = Plan((PlanStep("http.get", {"url": URL}),))
        await run_plan(gate, plan, simulate=True, with_reads=True)
        assert web.looked_up == []
        await gate.answer(outcome.call_id, approve=True, by=ANNA)
        answered = await gate.result(outcome.call_id)
        assert answered is not None
        assert answered.status is Status.SUCCESS
        assert web.looked_up == [HOST]


@pytest.mark.parametrize("source", ASKS)
async def test_a_no_leaves_the_name_untold(tmp_path: Path, source: str) -> None:
    web = a_web()
    async with gate_to(web, ASKS[source], tmp_path) as gate:
        outcome = await gate.call("http.get", {"url": URL}, wait=False)
        await gate.answer(outcome.call_id, approve=False, by=ANNA)
        answered = await gate.result(outcome.call_id)
        assert answered is not None
        assert (answered.status, web.looked_up) == (Status.DENIED, [])


@pytest.mark.parametrize("source", DENIES)
async def test_whatever_denies_nothing_is_looked_up(tmp_path: Path, source: str) -> None:
    web = a_web()
    async with gate_to(web, DENIES[source], tmp_path) as gate:
        assert (await gate.call("http.get", {"url": URL})).status is Status.DENIED
        await gate.simulate(request(), with_reads=True, with_previews=True)
        await run_plan(gate, Plan((PlanStep("http.get", {"url": URL}),)))
        assert web.looked_up == []


async def test_a_limit_that_is_used_up_is_known_before_the_next_look_up(tmp_path: Path) -> None:
    web = a_web()
    async with gate_to(web, {**LISTED, "limits": {"rate": {"per_minute": 1}}}, tmp_path) as gate:
        assert (await gate.call("http.get", {"url": URL})).status is Status.SUCCESS
        assert (await gate.call("http.get", {"url": URL})).status is Status.DENIED
        assert web.looked_up == [HOST]


async def test_where_nobody_can_be_asked_nothing_is_looked_up(tmp_path: Path) -> None:
    for number, policy in enumerate(ASKS.values()):
        web = a_web()
        async with a_gate_to(web, policy, tmp_path / f"{number}.db", agent=CAUTIOUS, can_ask=False) as gate:
            assert (await gate.call("http.get", {"url": URL})).status is Status.DENIED
            assert web.looked_up == []


@pytest.mark.parametrize("policy", [*ASKS.values(), *DENIES.values()])
def test_check_looks_up_only_what_is_allowed_so_far(policy: dict[str, Any]) -> None:
    looked_up: list[str] = []

    def look_up() -> dict[str, Any]:
        looked_up.append(HOST)
        return {"addresses": [PUBLIC]}

    looked = Looked((f"http.get({URL})",), {"host": HOST, "port": 443, "scheme": "https"}, look_further=look_up)
    checked = check_call(
        Judge(load_policy(policy)), "http.get", {"url": URL}, at=HandClock().now(), roles=("admin",),
        mode=Mode.AUTONOMOUS, look=lambda _: looked,
    )  # fmt: skip
    assert checked.outcome.decision is not Decision.ALLOW
    assert looked_up == []


@pytest.mark.parametrize("asking", [{"rules": [{"pattern": "*told*", "action": "ask"}]}, {}])
async def test_a_redirect_that_would_ask_is_not_looked_up(tmp_path: Path, asking: dict[str, Any]) -> None:
    web = Web()
    web.names = {"other.org": [[PUBLIC]], HOST: [[PUBLIC]]}
    web.pages = {"https://other.org/": {"status": 302, "location": URL}, URL: {"body": "hello"}}
    async with gate_to(web, {**(LISTED if asking else UNLISTED), **asking}, tmp_path) as gate:
        outcome = await gate.call("http.get", {"url": "https://other.org/"})
        assert (outcome.status is Status.SUCCESS, web.looked_up) == (False, ["other.org"])


RULE = st.builds(
    lambda pattern, action, when: {"pattern": pattern, "action": action} | ({"when": when} if when else {}),
    st.sampled_from(("*", "http.get(*)", "http.get(https://told*)", "fs.*", "*org/x*")),
    st.sampled_from(("allow", "ask", "deny")),
    st.sampled_from((None, None, "risk == 'low'", "cost > 3", "mode == 'autonomous'", "inputs['nothing']")),
)
POLICIES = st.fixed_dictionaries(
    {"tools": st.sampled_from((LISTED["tools"], UNLISTED["tools"]))},
    optional={
        "rules": st.lists(RULE, min_size=1, max_size=3),
        "defaults": st.lists(RULE, min_size=1, max_size=2),
        "boundary": st.just("deny_by_default"),
        "approvals": st.lists(
            st.fixed_dictionaries(
                {"min_cost": st.integers(0, 2)},
                optional={
                    "unless_role": st.sampled_from(("admin", "viewer")),
                    "risk": st.sampled_from(("low", "high")),
                },
            ),
            min_size=1,
            max_size=2,
        ),
        "declare": st.fixed_dictionaries(
            {
                "http.get": st.fixed_dictionaries(
                    {"cost": st.integers(1, 2)},
                    optional={
                        "risk": st.just("high"),
                        "required_roles": st.just(["viewer"]),
                        "confirmation_required": st.just(True),
                    },
                )
            }
        ),
        "limits": st.just({"budget": {"daily": 1}}),
    },
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(POLICIES)
async def test_under_any_policy_only_what_is_allowed_is_looked_up(tmp_path: Path, policy: dict[str, Any]) -> None:
    web = a_web()
    db = tmp_path / f"{next(NUMBERS)}.db"
    async with a_gate_to(web, policy, db, agent=CAUTIOUS, can_ask=True, clock=HandClock()) as gate:
        outcome = await gate.call("http.get", {"url": URL}, wait=False)
        assert (outcome.status is Status.SUCCESS) == (web.looked_up == [HOST])
        assert outcome.status is Status.SUCCESS or web.looked_up == []

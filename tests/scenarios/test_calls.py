"""One call through all six stages: what is answered, what is written down, what is charged."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_gate import Outcome, PolicyDeniedError, StorageError, ToolError, tool, transition
from agent_gate.model.call import BoundCall, CallRequest
from agent_gate.model.committed import Committed, StateMoved
from agent_gate.model.entry import GATE_PROJECT
from agent_gate.model.outcome import Status
from agent_gate.model.tool import Json, Mode
from agent_gate.model.verdict import Decision
from agent_gate.model.work import StateChange, Work
from agent_gate.ports.ledger import Turn
from agent_gate.ports.tools import Binding, Moved
from agent_gate.toolkit import REGISTERED, registered_tool
from tests.gates import (
    ALLOW_ALL,
    NOON,
    HandClock,
    a_gate,
    agent,
    code_of,
    counter,
    entries,
    kinds_of,
    projects,
    reader,
    rows,
    run_elsewhere,
    sender,
    soon,
    until,
)


def limited(**limits: Any) -> dict[str, Any]:
    return {**ALLOW_ALL, "limits": limits}


async def test_a_read_is_one_entry_and_its_outcome_has_the_documented_shape(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOW_ALL, reader([])) as gate:
        outcome = await gate.call("note.read", text="x", request_id="r1")
        assert outcome.to_json() == {
            "request_id": "r1",
            "call_id": outcome.call_id,
            "status": "success",
            "data": {"read": "x"},
            "signatures": ["note.read(x)"],
            "decision": "allow",
            "reasons": [{"layer": "rules", "rule": "*"}],
            "started_at": "2026-03-04T12:00:00.000000Z",
            "ended_at": "2026-03-04T12:00:00.000000Z",
        }
        assert kinds_of(gate, outcome.call_id) == ["settled"]


async def test_a_write_has_its_intent_on_disk_before_the_act(tmp_path: Path) -> None:
    seen: list[list[str]] = []

    @tool("probe.write", effect="write")
    async def probe() -> None:
        seen.append([row["kind"] for row in entries(gate) if row["call_id"]])

    async with a_gate(tmp_path, ALLOW_ALL, probe) as gate:
        outcome = await gate.call("probe.write")
        assert seen == [["performing"]]
        assert kinds_of(gate, outcome.call_id) == ["performing", "settled"]
        assert outcome.cost == 1


async def test_a_read_that_costs_has_an_intent_too(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOW_ALL, reader([], cost=2)) as gate:
        outcome = await gate.call("note.read")
        assert (kinds_of(gate, outcome.call_id), outcome.cost) == (["performing", "settled"], 2)


async def test_a_pure_call_is_state_diff_and_snapshot_in_one_entry(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOW_ALL, counter()) as gate:
        outcome = await gate.call("counter.add", n=3)
        assert outcome.state_version == 1
        assert outcome.state_diff == ({"op": "add", "path": "/n", "value": 3},)
        assert outcome.message == "now 3"
        assert kinds_of(gate, outcome.call_id) == ["settled"]
        [snapshot] = rows(gate, "SELECT * FROM snapshots")
        assert (snapshot["snapshot_id"], snapshot["version"], snapshot["call_id"]) == (
            outcome.snapshot_id,
            1,
            outcome.call_id,
        )
        assert (await gate.ledger.state("default")).document == {"n": 3}


@pytest.mark.parametrize(
    ("call", "status", "code"),
    [
        (("note.read", {"text": "a"}), "success", None),
        (("mail.send", {"text": "a"}), "success", None),
        (("counter.add", {"n": 2}), "success", None),
        (("state.get", {}), "success", None),
        (("mail.send", {"text": "bad"}), "denied", 1001),
        (("nobody.knows", {}), "error", 2001),
        (("note.read", {"unheard": 1}), "error", 2002),
        (("ha_get_states", {}), "error", 2006),
        (("break.it", {}), "error", 2003),
    ],
)
async def test_what_is_recorded_is_what_was_answered(
    tmp_path: Path, call: tuple[str, dict[str, Json]], status: str, code: int | None
) -> None:
    @tool("break.it", effect="write")
    async def break_it() -> None:
        raise RuntimeError("no")

    policy = {"rules": [*_rules(ALLOW_ALL), {"pattern": "mail.send(bad)", "action": "deny", "description": "never"}]}
    async with a_gate(tmp_path, policy, reader([]), sender([]), counter(), break_it) as gate:
        outcome = await gate.call(*call, request_id="r")
        assert (outcome.status.value, code_of(outcome)) == (status, code)
        assert await gate.result(outcome.call_id) == outcome
        assert await gate.call(*call, request_id="r") == outcome


def _rules(policy: Any) -> list[Any]:
    return list(policy["rules"])


async def test_a_denied_call_changes_nothing_and_is_told_apart_from_a_failed_one(tmp_path: Path) -> None:
    @transition("state.break")
    def break_state(_: dict[str, Json], state: Json) -> tuple[Json, str]:
        state["half"] = "done"
        raise RuntimeError("in the middle")

    policy = {"rules": [*_rules(ALLOW_ALL), {"pattern": "counter.add(9)", "action": "deny"}]}
    async with a_gate(tmp_path, policy, counter(), break_state) as gate:
        denied = await gate.call("counter.add", n=9)
        failed = await gate.call("state.break")
        assert (denied.status, code_of(denied)) == (Status.DENIED, 1001)
        assert (failed.status, code_of(failed)) == (Status.ERROR, 2003)
        state = await gate.ledger.state("default")
        assert (state.version, state.document) == (0, {})
        statuses = rows(gate, "SELECT status FROM tool_results ORDER BY started_at, call_id")
        assert [row["status"] for row in statuses] == ["denied", "error"]


async def test_a_pure_tool_gets_copies_and_cannot_change_what_it_was_given(tmp_path: Path) -> None:
    kept: list[Json] = []

    @transition("state.keep")
    def keep(inputs: dict[str, Json], state: Json) -> tuple[Json, str]:
        kept.extend((inputs, state))
        return {"seen": inputs["list"]}, "kept"

    given = {"list": [1]}
    async with a_gate(tmp_path, ALLOW_ALL, keep) as gate:
        await gate.call("state.keep", given)
        kept[0]["list"].append("mine")
        kept[1]["mine"] = True
        assert (await gate.ledger.state("default")).document == {"seen": [1]}
        assert given == {"list": [1]}
        assert (await gate.call("state.get")).data == {"seen": [1]}


@pytest.mark.parametrize(
    ("new_state", "code"),
    [({"when": object()}, 2003), ({"n": float("nan")}, 2003), ({"big": "x" * 4_200_000}, 2005)],
    ids=["not JSON", "not a number", "too large"],
)
async def test_a_state_that_cannot_be_kept_is_refused_and_the_old_one_stays(
    tmp_path: Path, new_state: Json, code: int
) -> None:
    @transition("state.replace")
    def put(_: dict[str, Json], __: Json) -> tuple[Json, str]:
        return new_state, "put"

    async with a_gate(tmp_path, ALLOW_ALL, counter(), put) as gate:
        await gate.call("counter.add")
        outcome = await gate.call("state.replace")
        assert (outcome.status, code_of(outcome)) == (Status.ERROR, code)
        assert (await gate.ledger.state("default")).document == {"n": 1}


async def test_a_transition_that_returns_something_else_fails(tmp_path: Path) -> None:
    @transition("state.nothing")
    def nothing(_: dict[str, Json], __: Json) -> None:
        return None

    async with a_gate(tmp_path, ALLOW_ALL, nothing) as gate:
        outcome = await gate.call("state.nothing")
        assert (code_of(outcome), (await gate.ledger.state("default")).version) == (2003, 0)


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), asyncio.CancelledError()], ids=repr)
async def test_a_tool_that_raises_anything_fails_its_call_and_no_other(tmp_path: Path, error: BaseException) -> None:
    @tool("raise.it", effect="write")
    async def raise_it() -> None:
        raise error

    @transition("raise.pure")
    def raise_pure(_: dict[str, Json], __: Json) -> tuple[Json, str]:
        raise error

    async with a_gate(tmp_path, ALLOW_ALL, raise_it, raise_pure, sender([])) as gate:
        for name in ("raise.it", "raise.pure"):
            outcome = await soon(gate.call(name))
            assert (outcome.status, code_of(outcome)) == (Status.ERROR, 2003)
            assert type(error).__name__ in str(outcome.error)
        assert (await gate.call("mail.send")).ok


async def test_a_tool_s_own_timeout_error_is_a_failure_and_not_the_gate_s_timeout(tmp_path: Path) -> None:
    @tool("impatient", effect="read", cost=0, risk="low")
    async def impatient() -> None:
        raise TimeoutError("the server did not answer")

    async with a_gate(tmp_path, ALLOW_ALL, impatient) as gate:
        assert code_of(await gate.call("impatient")) == 2003


@pytest.mark.parametrize("name", ["slow.async", "slow.blocking"])
async def test_a_tool_that_takes_too_long_is_cut_off_and_says_that_it_may_have_acted(tmp_path: Path, name: str) -> None:
    gone_on = threading.Event()

    @tool("slow.blocking", effect="write", timeout_s=0.05)
    def slow_blocking() -> None:
        gone_on.wait(20)

    @tool("slow.async", effect="write", timeout_s=0.05)
    async def slow_async() -> None:
        await asyncio.Event().wait()

    async with a_gate(tmp_path, ALLOW_ALL, slow_blocking, slow_async) as gate:
        outcome = await soon(gate.call(name))
        gone_on.set()
        assert (outcome.status, code_of(outcome)) == (Status.ERROR, 2004)
        assert "may have acted" in str(outcome.error)
        assert kinds_of(gate, outcome.call_id) == ["performing", "settled"]


async def test_a_result_that_is_not_json_or_too_large_fails_the_call(tmp_path: Path) -> None:
    @tool("odd", effect="read", cost=0, risk="low")
    async def odd() -> Any:
        return {1, 2}

    @tool("huge", effect="read", cost=0, risk="low")
    async def huge() -> str:
        return "x" * (17 * 1_048_576)

    async with a_gate(tmp_path, ALLOW_ALL, odd, huge) as gate:
        assert code_of(await gate.call("odd")) == 2003
        assert code_of(await gate.call("huge")) == 2005


async def test_a_large_result_comes_back_whole(tmp_path: Path) -> None:
    @tool("long", effect="read", cost=0, risk="low")
    async def long() -> str:
        return "x" * 100_000

    async with a_gate(tmp_path, ALLOW_ALL, long) as gate:
        outcome = await gate.call("long")
        assert await gate.result(outcome.call_id) == outcome
        assert len(outcome.data) == 100_000


@pytest.mark.parametrize(
    "args", [{"text": float("inf")}, {"text": object()}, {"text": 2**60}, {"text": "x" * 2_000_000}, {"text": "\ud800"}]
)
async def test_arguments_that_are_not_plain_json_are_turned_away_with_2002(
    tmp_path: Path, args: dict[str, Json]
) -> None:
    acts: list[str] = []
    async with a_gate(tmp_path, ALLOW_ALL, reader(acts)) as gate:
        outcome = await gate.call("note.read", args)
        assert (outcome.status, code_of(outcome), acts) == (Status.ERROR, 2002, [])


@pytest.mark.parametrize("name", ["", "x" * 201, "a\nb"])
async def test_a_malformed_name_is_counted_and_not_written_one_by_one(tmp_path: Path, name: str) -> None:
    async with a_gate(tmp_path, ALLOW_ALL) as gate:
        before = len(entries(gate))
        for _ in range(5):
            assert code_of(await gate.call(name)) == 2002
        assert len(entries(gate)) == before
        await gate.stages.refusal_counts.close()
        [summary] = entries(gate, "door")
        assert summary["project"] == GATE_PROJECT
        assert summary["body"]["refused"] == [{"agent_id": "local", "count": 5, "why": "bad_arguments"}]


async def test_a_mode_that_does_not_exist_is_a_coded_error(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOW_ALL, reader([])) as gate:
        with pytest.raises(ToolError, match="mode `wild` is unknown"):
            await gate.call("note.read", mode="wild")


async def test_an_agent_that_floods_is_refused_until_it_slows_down(tmp_path: Path) -> None:
    clock, bot = HandClock(), agent(requests_per_minute=3)
    async with a_gate(tmp_path, ALLOW_ALL, reader([]), clock=clock) as gate:
        codes = [code_of(await gate.call("note.read", agent=bot)) for _ in range(5)]
        assert codes == [None, None, None, 1012, 1012]
        clock.advance(20)
        assert [code_of(await gate.call("note.read", agent=bot)) for _ in range(2)] == [None, 1012]
        assert (await gate.call("note.read", agent=agent("other"))).ok


async def test_the_gate_s_own_chain_is_no_project_of_agents(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOW_ALL, counter()) as gate:
        outcome = await gate.call("counter.add", project=GATE_PROJECT, agent=agent(projects=("*",)))
        assert code_of(outcome) == 6003


async def test_a_tool_that_touches_nothing_that_can_be_named_is_not_performed(tmp_path: Path) -> None:
    acts: list[str] = []
    function = sender(acts)
    released: list[bool] = []

    async def bind(*_: object) -> Binding:
        return Binding((), release=lambda: released.append(True))

    setattr(function, REGISTERED, replace(registered_tool(function), bind=bind))
    async with a_gate(tmp_path, ALLOW_ALL, function) as gate:
        outcome = await gate.call("mail.send")
        assert (code_of(outcome), acts, released) == (2002, [], [True])


async def test_a_binder_that_breaks_fails_the_call_and_not_the_gate(tmp_path: Path) -> None:
    acts: list[str] = []
    function = sender(acts)

    async def bind(*_: object) -> Any:
        raise KeyError("oops")

    setattr(function, REGISTERED, replace(registered_tool(function), bind=bind))
    async with a_gate(tmp_path, ALLOW_ALL, function, reader([])) as gate:
        outcome = await gate.call("mail.send")
        assert (outcome.status, code_of(outcome), acts) == (Status.ERROR, 2003, [])
        assert (await gate.call("note.read")).ok


async def test_the_same_request_id_returns_the_stored_outcome_and_acts_once(tmp_path: Path) -> None:
    acts: list[str] = []
    async with a_gate(tmp_path, ALLOW_ALL, sender(acts)) as gate:
        first = await gate.call("mail.send", text="hello", request_id="r")
        again = await gate.call("mail.send", text="hello", request_id="r")
        assert (again, acts) == (first, ["hello"])
        other = await gate.call("mail.send", text="other", request_id="r")
        assert (code_of(other), acts) == (2002, ["hello"])
        assert (await gate.call("mail.send", text="hello", request_id="r", agent=agent("else"))).ok
        assert acts == ["hello", "hello"]


async def test_the_same_request_made_many_times_at_once_acts_once(tmp_path: Path) -> None:
    acts: list[str] = []
    async with a_gate(tmp_path, ALLOW_ALL, sender(acts)) as gate:
        calls = [gate.call("mail.send", text="hello", request_id="r") for _ in range(20)]
        outcomes = await asyncio.gather(*calls)
        assert acts == ["hello"]
        assert {outcome.call_id for outcome in outcomes} == {outcomes[0].call_id}


async def test_a_repeated_request_joins_the_one_that_another_process_works_on(tmp_path: Path) -> None:
    acts: list[str] = []
    go = asyncio.Event()

    @tool("mail.send", effect="write")
    async def wait_and_send(text: str = "") -> Json:
        await go.wait()
        acts.append(text)
        return {"sent": text}

    async with (
        a_gate(tmp_path, ALLOW_ALL, wait_and_send) as one,
        a_gate(tmp_path, ALLOW_ALL, wait_and_send) as two,
    ):
        first = asyncio.create_task(one.call("mail.send", text="hello", request_id="r"))
        await until(lambda: entries(one, "performing"))
        impatient = await two.call("mail.send", text="hello", request_id="r", wait=False)
        assert (impatient.status, code_of(impatient)) == (Status.UNKNOWN, 2007)
        second = asyncio.create_task(two.call("mail.send", text="hello", request_id="r"))
        go.set()
        assert await soon(second) == await soon(first)
        assert acts == ["hello"]


async def test_a_call_goes_on_when_its_caller_is_cancelled(tmp_path: Path) -> None:
    acts: list[str] = []
    begun, go = asyncio.Event(), asyncio.Event()

    @tool("slow.send", effect="write")
    async def send() -> None:
        begun.set()
        await go.wait()
        acts.append("sent")

    async with a_gate(tmp_path, ALLOW_ALL, send) as gate:
        caller = asyncio.create_task(gate.call("slow.send"))
        await soon(begun.wait())
        caller.cancel()
        await asyncio.wait({caller})
        go.set()
    assert acts == ["sent"]
    async with a_gate(tmp_path) as gate:
        [settled] = entries(gate, "settled")
        assert settled["status"] == "success"


async def test_closing_waits_for_what_is_being_performed(tmp_path: Path) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    @tool("slow.send", effect="write")
    async def send() -> None:
        begun.set()
        await go.wait()

    async with a_gate(tmp_path, ALLOW_ALL, send) as gate:
        call = asyncio.create_task(gate.call("slow.send"))
        await soon(begun.wait())
        closing = asyncio.create_task(gate.close())
        await asyncio.sleep(0)
        assert not closing.done()
        go.set()
        await soon(closing)
        assert (await call).ok
        await gate.close()


async def test_a_closed_gate_answers_5002_and_does_nothing(tmp_path: Path) -> None:
    acts: list[str] = []
    async with a_gate(tmp_path, ALLOW_ALL, sender(acts)) as gate:
        await gate.close()
        outcome = await gate.call("mail.send")
        assert (outcome.status, code_of(outcome), acts) == (Status.ERROR, 5002, [])
        with pytest.raises(StorageError):
            outcome.raise_for_status()


async def test_a_verdict_holds_for_the_state_that_the_intent_stands_on(tmp_path: Path) -> None:
    """The state moves after the verdict and before the intent: the call is judged again."""
    shipped: list[str] = []

    @tool("stock.ship", effect="write", preconditions=["state['stock'] > 0"])
    async def ship() -> None:
        shipped.append("one")

    @asynccontextmanager
    async def moved_first(project: str, *, alone: bool) -> AsyncIterator[Turn]:
        gate.ledger.turn = turn  # type: ignore[method-assign]
        await gate.call("state.set", path="stock", value=0)
        async with turn(project, alone=alone) as taken:
            yield taken

    async with a_gate(tmp_path, ALLOW_ALL, ship) as gate:
        await gate.call("state.set", path="stock", value=1)
        assert ((await gate.call("stock.ship")).ok, shipped) == (True, ["one"])
        turn = gate.ledger.turn
        gate.ledger.turn = moved_first  # type: ignore[assignment, method-assign]
        outcome = await gate.call("stock.ship")
        assert (code_of(outcome), shipped) == (1011, ["one"])


@pytest.mark.parametrize(("last", "code"), [(99, None), (0, 1011)], ids=["passes", "is denied"])
async def test_an_act_passes_although_the_state_never_rests(tmp_path: Path, last: int, code: int | None) -> None:
    """It moves between verdict and intent, each time: in the end the act is judged where nobody can move it."""
    shipped: list[str] = []

    @tool("stock.ship", effect="write", preconditions=["state['stock'] > 0"])
    async def ship() -> None:
        shipped.append("one")

    numbers = itertools.count()

    @asynccontextmanager
    async def moved_first(project: str, *, alone: bool) -> AsyncIterator[Turn]:
        gate.ledger.turn = turn  # type: ignore[method-assign]
        number = next(numbers)
        await gate.call("state.set", path="", value={"stock": last if number > 1 else 1, "moved": number})
        gate.ledger.turn = moved_first  # type: ignore[assignment, method-assign]
        async with turn(project, alone=alone) as taken:
            yield taken

    async with a_gate(tmp_path, ALLOW_ALL, ship) as gate:
        await gate.call("state.set", path="stock", value=1)
        turn = gate.ledger.turn
        gate.ledger.turn = moved_first  # type: ignore[assignment, method-assign]
        outcome = await soon(gate.call("stock.ship"))
        assert (outcome.ok, code_of(outcome), len(shipped)) == (code is None, code, 1 if code is None else 0)
        assert bool(await gate.ledger.entries_of(outcome.call_id, "performing")) is outcome.ok


async def test_a_call_under_which_the_state_never_rests_is_given_up_and_changes_nothing(tmp_path: Path) -> None:
    async def always_moved(work: Work) -> Committed:
        return StateMoved(99) if work.find(StateChange) else await commit(work)

    async with a_gate(tmp_path, ALLOW_ALL, counter()) as gate:
        commit = gate.ledger.commit
        gate.ledger.commit = always_moved  # type: ignore[method-assign]
        outcome = await soon(gate.call("counter.add"))
        assert (outcome.status, code_of(outcome)) == (Status.ERROR, 5002)
        assert (await gate.ledger.state("default")).version == 0


async def test_the_same_request_id_with_other_arguments_at_the_same_moment_is_refused(tmp_path: Path) -> None:
    acts: list[str] = []
    async with a_gate(tmp_path, ALLOW_ALL, sender(acts)) as gate:
        calls = [gate.call("mail.send", text=text, request_id="r") for text in "ab"]
        first, second = await asyncio.gather(*calls)
        assert (first.ok, code_of(second), acts) == (True, 2002, ["a"])


async def test_a_defect_of_the_gate_itself_is_answered_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: object) -> None:
        raise AssertionError("cannot be")

    async with a_gate(tmp_path, ALLOW_ALL, reader([])) as gate:
        gate.stages.performer.act = broken  # type: ignore[method-assign,assignment]
        outcome = await gate.call("note.read")
        assert (outcome.status, code_of(outcome), outcome.data) == (Status.ERROR, 2003, None)
        assert "cannot be" in caplog.text


async def test_a_run_that_ends_while_a_step_is_bound_does_not_perform_it(tmp_path: Path) -> None:
    clock, acts = HandClock(), list[str]()
    function = sender(acts)

    async def bind(*_: object) -> Binding:
        clock.advance(2)
        return Binding(("mail.send",))

    setattr(function, REGISTERED, replace(registered_tool(function), bind=bind))
    async with a_gate(tmp_path, ALLOW_ALL, function, clock=clock) as gate:
        request = CallRequest(gate.agent, "mail.send", {}, run_ends_at=clock.monotonic() + 1)
        outcome = await gate.submit(request)
        assert (outcome.status, code_of(outcome), acts) == (Status.DENIED, 1008, [])


@pytest.mark.parametrize(
    ("name", "fails_at", "status", "performed"),
    [
        ("nobody.knows", 1, "error", False),
        ("counter.add", 1, "error", False),
        ("note.read", 1, "error", True),
        ("mail.send", 1, "error", False),
        ("mail.send", 2, "unknown", True),
    ],
)
async def test_where_the_ledger_cannot_be_written_nothing_is_claimed(
    tmp_path: Path, name: str, fails_at: int, status: str, performed: bool
) -> None:
    acts: list[str] = []
    works: list[Work] = []

    async def failing(work: Work) -> Committed:
        works.append(work)
        if len(works) == fails_at:
            raise StorageError("the disk is full")
        return await commit(work)

    async with a_gate(tmp_path, ALLOW_ALL, sender(acts), reader(acts), counter()) as gate:
        commit = gate.ledger.commit
        gate.ledger.commit = failing  # type: ignore[method-assign]
        outcome = await gate.call(name)
        assert (outcome.status.value, code_of(outcome), outcome.data) == (status, 5002, None)
        assert bool(acts) == performed
        assert (await gate.ledger.state("default")).version == 0


async def test_rates_slide_by_the_minute_and_by_the_hour(tmp_path: Path) -> None:
    clock = HandClock()
    async with a_gate(tmp_path, limited(rate={"per_minute": 2, "per_hour": 3}), reader([]), clock=clock) as gate:
        codes = []
        for step_s in (0, 30, 0, 31, 28, 0, 3540, 0, 0):
            clock.advance(step_s)
            codes.append(code_of(await gate.call("note.read")))
        assert codes == [None, None, 1012, None, 1012, 1012, None, None, 1012]


async def test_what_is_denied_or_fails_to_bind_is_not_counted_against_the_rate(tmp_path: Path) -> None:
    policy = {**limited(rate={"per_minute": 1}), "rules": [*_rules(ALLOW_ALL), {"pattern": "*bad*", "action": "deny"}]}
    async with a_gate(tmp_path, policy, reader([])) as gate:
        assert code_of(await gate.call("note.read", text="bad")) == 1001
        assert code_of(await gate.call("note.read", nothing=1)) == 2002
        assert (await gate.call("note.read")).ok
        assert code_of(await gate.call("note.read")) == 1012


async def test_the_daily_budget_ends_with_the_day_of_the_policy_s_time_zone(tmp_path: Path) -> None:
    clock = HandClock(NOON)
    policy = {**limited(budget={"daily": 5}), "timezone": "Pacific/Auckland"}
    async with a_gate(tmp_path, policy, sender([], cost=3), clock=clock) as gate:
        assert (await gate.call("mail.send")).ok  # 01:00 on the 5th in Auckland
        clock.advance(22 * 3600)  # 23:00
        assert code_of(await gate.call("mail.send")) == 1013
        clock.advance(3600)
        assert (await gate.call("mail.send")).ok


async def test_an_act_that_fails_or_times_out_has_cost_what_it_costs(tmp_path: Path) -> None:
    @tool("fail", effect="write", cost=3)
    async def fail() -> None:
        raise RuntimeError("half-way")

    @tool("hang", effect="write", cost=3, timeout_s=0.02)
    async def hang() -> None:
        await asyncio.Event().wait()

    async with a_gate(tmp_path, limited(budget={"daily": 6}), fail, hang, sender([], cost=1)) as gate:
        for name in ("fail", "hang"):
            outcome = await gate.call(name)
            assert (outcome.status, outcome.cost) == (Status.ERROR, 3)
        assert code_of(await gate.call("mail.send")) == 1013


async def test_what_was_reserved_is_released_where_nothing_was_performed(tmp_path: Path) -> None:
    up = False

    @tool("far.away", effect="write", cost=5)
    async def far_away() -> str:
        if not up:
            raise ToolError("the service does not answer", code=2006)
        return "done"

    async with a_gate(tmp_path, limited(budget={"daily": 5}), far_away) as gate:
        for _ in range(3):
            outcome = await gate.call("far.away")
            assert (code_of(outcome), outcome.cost) == (2006, None)
            assert kinds_of(gate, outcome.call_id) == ["performing", "settled"]
        up = True
        assert (await gate.call("far.away")).ok
        assert code_of(await gate.call("far.away")) == 1013


async def test_an_act_whose_process_is_gone_is_unknown_and_charged(tmp_path: Path) -> None:
    run_elsewhere(
        tmp_path,
        """
        @tool("mail.send", effect="write", cost=3)
        async def die(text: str = "") -> None:
            os._exit(9)

        async def main():
            async with a_gate(directory, {**ALLOW_ALL, "limits": {"budget": {"daily": 5}}}, die) as gate:
                await gate.call("mail.send", request_id="r")
        """,
    )
    acts: list[str] = []
    async with a_gate(tmp_path, limited(budget={"daily": 5}), sender(acts, cost=3)) as gate:
        outcome = await gate.call("mail.send", request_id="r")
        assert (outcome.status, code_of(outcome)) == (Status.UNKNOWN, 2007)
        assert (code_of(await gate.call("mail.send")), acts) == (1013, [])


async def test_no_room_at_settling_withholds_the_data(tmp_path: Path) -> None:
    """Two reads see room for one; the second to settle is denied although it has read."""
    both, acts = asyncio.Barrier(2), []

    @tool("note.read", effect="read", cost=0, risk="low")
    async def read() -> str:
        acts.append("read")
        await both.wait()
        return "the content"

    async with a_gate(tmp_path, limited(rate={"per_minute": 1}), read) as gate:
        outcomes = await soon(asyncio.gather(gate.call("note.read"), gate.call("note.read")))
        won, lost = sorted(outcomes, key=lambda outcome: not outcome.ok)
        assert (won.data, lost.data) == ("the content", None)
        assert (lost.status, code_of(lost)) == (Status.DENIED, 1012)
        assert acts == ["read", "read"]
        assert "the content" not in str([row for row in entries(gate) if row["call_id"] == lost.call_id])


async def test_many_calls_at_once_never_overspend_a_budget(tmp_path: Path) -> None:
    acts: list[str] = []
    async with a_gate(tmp_path, limited(budget={"daily": 10}), sender(acts, cost=3)) as gate:
        outcomes = await asyncio.gather(*(gate.call("mail.send") for _ in range(20)))
        assert len(acts) == sum(outcome.ok for outcome in outcomes) == 3
        assert {code_of(outcome) for outcome in outcomes if not outcome.ok} == {1013}


async def test_limits_count_each_project_by_itself(tmp_path: Path) -> None:
    bot = agent(projects=("*",))
    async with a_gate(tmp_path, limited(rate={"per_minute": 1}), reader([]), agent=bot) as gate:
        await projects(gate).create("home")
        assert (await gate.call("note.read")).ok
        assert (await gate.call("note.read", project="home")).ok
        assert code_of(await gate.call("note.read")) == 1012


async def test_a_request_may_only_name_a_stricter_mode(tmp_path: Path) -> None:
    policy = {
        "rules": [{"pattern": "*", "action": "allow", "when": "mode == 'autonomous'"}],
        "boundary": "deny_by_default",
    }
    async with a_gate(tmp_path, policy, reader([])) as gate:
        assert code_of(await gate.call("note.read", mode="autonomous")) == 1001
        wild = agent(mode=Mode.AUTONOMOUS)
        assert (await gate.call("note.read", agent=wild)).ok
        assert code_of(await gate.call("note.read", agent=wild, mode="interactive")) == 1001


async def test_confirmed_satisfies_confirmation_and_nothing_else(tmp_path: Path) -> None:
    policy = {**ALLOW_ALL, "declare": {"mail.send": {"confirmation_required": True}}, "approvals": [{"min_cost": 5}]}
    acts: list[str] = []
    async with a_gate(tmp_path, policy, sender(acts), sender(acts, "dear.send", cost=5)) as gate:
        assert code_of(await gate.call("mail.send")) == 1010
        assert (await gate.call("mail.send", confirmed=True)).ok
        held = await gate.call("dear.send", confirmed=True, wait=False)
        assert (held.status, len(acts)) == (Status.PENDING_APPROVAL, 1)


async def test_an_effect_runs_after_the_commit_and_its_result_is_an_entry(tmp_path: Path) -> None:
    seen: list[Json] = []

    async def tell(outcome: dict[str, Json]) -> Json:
        seen.append((outcome["status"], (await gate.ledger.state("default")).document))
        return {"told": True}

    def blocking(outcome: dict[str, Json]) -> Json:
        return outcome["message"]

    def broken(_: dict[str, Json]) -> Json:
        raise RuntimeError("the mail server is down")

    tools = [
        counter("one.add", post_execution=tell),
        counter("two.add", post_execution=blocking),
        counter("three.add", post_execution=broken),
    ]
    async with a_gate(tmp_path, ALLOW_ALL, *tools) as gate:
        outcomes = [await gate.call(f"{name}.add") for name in ("one", "two", "three")]
        assert all(outcome.ok for outcome in outcomes)
        await gate.close()
    async with a_gate(tmp_path) as gate:
        assert seen == [("success", {"n": 1})]
        effects = {row["tool"]: (row["status"], row["body"].get("data")) for row in entries(gate, "effect")}
        assert effects == {
            "one.add": ("success", {"told": True}),
            "two.add": ("success", "now 2"),
            "three.add": ("error", None),
        }
        assert rows(gate, "SELECT * FROM outbox") == []


async def test_a_denied_or_failed_call_has_no_effect(tmp_path: Path) -> None:
    seen: list[Json] = []

    async def tell(outcome: dict[str, Json]) -> None:
        seen.append(outcome)

    policy = {"rules": [{"pattern": "*", "action": "deny"}]}
    async with a_gate(tmp_path, policy, counter(post_execution=tell)) as gate:
        await gate.call("counter.add")
    assert seen == []


async def test_the_outcome_raises_the_exception_of_its_code(tmp_path: Path) -> None:
    policy = {"rules": [*_rules(ALLOW_ALL), {"pattern": "*bad*", "action": "deny"}]}
    async with a_gate(tmp_path, policy, reader([])) as gate:
        ok = await gate.call("note.read")
        assert ok.raise_for_status() is ok
        with pytest.raises(PolicyDeniedError) as denied:
            (await gate.call("note.read", text="bad")).raise_for_status()
        assert denied.value.code == 1001
        with pytest.raises(ToolError) as failed:
            (await gate.call("nobody.knows")).raise_for_status()
        assert failed.value.code == 2001


async def test_the_audit_view_tells_each_call_once(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOW_ALL, reader([]), sender([])) as gate:
        read = await gate.call("note.read", text="a", request_id="r1")
        sent = await gate.call("mail.send", text="b")
        log = rows(gate, "SELECT request_id, tool_name, args, signature, decision, agent_id FROM audit_log ORDER BY id")
        assert log == [
            _logged("r1", "note.read", '{"text":"a"}', read),
            _logged(sent.call_id, "mail.send", '{"text":"b"}', sent),
        ]


def _logged(request_id: str, name: str, args: str, outcome: Outcome) -> dict[str, Any]:
    assert outcome.decision is Decision.ALLOW
    return {
        "request_id": request_id,
        "tool_name": name,
        "args": args,
        "signature": outcome.signatures[0],
        "decision": "allow",
        "agent_id": "local",
    }


async def test_what_moved_before_the_intent_is_bound_and_judged_again(tmp_path: Path) -> None:
    acts: list[str] = []
    places = iter(["old", "new"])
    moves = iter([True, False])
    function = sender(acts)

    async def bind(*_: object) -> Binding:
        place = next(places)

        async def keep(_: BoundCall) -> bytes | None:
            if next(moves):
                raise Moved("it is elsewhere now")
            return None

        async def act(_: BoundCall) -> Json:
            acts.append(place)

        return Binding((f"mail.send({place})",), act=act, keep=keep)

    setattr(function, REGISTERED, replace(registered_tool(function), bind=bind))
    async with a_gate(tmp_path, ALLOW_ALL, function) as gate:
        outcome = await gate.call("mail.send")
        assert (outcome.status, outcome.signatures, acts) == (Status.SUCCESS, ("mail.send(new)",), ["new"])
        assert [row["kind"] for row in rows(gate, "SELECT kind FROM entries WHERE call_id = ?", outcome.call_id)] == [
            "performing",
            "settled",
        ]


async def test_what_moved_after_the_intent_ends_the_call_without_an_act(tmp_path: Path) -> None:
    function = sender([])

    async def bind(*_: object) -> Binding:
        async def act(_: BoundCall) -> Json:
            raise Moved("it is elsewhere now", suggestion="make the call again")

        return Binding(("mail.send",), act=act)

    setattr(function, REGISTERED, replace(registered_tool(function), bind=bind))
    async with a_gate(tmp_path, ALLOW_ALL, function) as gate:
        outcome = await gate.call("mail.send")
        assert (outcome.status, code_of(outcome), outcome.cost) == (Status.ERROR, 2006, None)


async def test_a_tool_that_cannot_know_how_its_act_ended_leaves_it_unknown(tmp_path: Path) -> None:
    @tool("door.open", effect="write", cost=3)
    async def open_door() -> None:
        """Sent, and then the line went dead."""
        raise ToolError("the connection was lost after it was sent", code=2007, suggestion="look at the door")

    async with a_gate(tmp_path, ALLOW_ALL, open_door) as gate:
        outcome = await gate.call("door.open")
        assert (outcome.status, code_of(outcome), outcome.cost) == (Status.UNKNOWN, 2007, 3)

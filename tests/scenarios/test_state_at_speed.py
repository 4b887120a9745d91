"""Changes of one project stand on each other before they are committed: none is lost, half-done or misjudged."""

from __future__ import annotations

import asyncio
import itertools
import random
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from inspect import CORO_SUSPENDED, getcoroutinestate
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_gate import Gate, Outcome, tool, transition
from agent_gate.gate.approvals import Approvals
from agent_gate.ledger.files import LedgerFiles
from agent_gate.ledger.sqlite.bounds import LedgerBounds
from agent_gate.ledger.sqlite.ledger import SqliteLedger
from agent_gate.ledger.sqlite.locks import ProjectLocks
from agent_gate.ledger.sqlite.turns import Turns
from agent_gate.model.approval import GrantTerms
from agent_gate.model.bounds import TRANSITION_ON_LOOP_BYTES_MAX
from agent_gate.model.committed import Applied, Committed, GrantSpent, StateMoved
from agent_gate.model.errors import StorageError
from agent_gate.model.grant import Grant
from agent_gate.model.project import ProjectState
from agent_gate.model.tool import Json
from agent_gate.model.work import Work
from agent_gate.ports.ledger import Turn
from tests.faults.nursery import Nursery
from tests.gates import ALLOW_ALL, PATIENCE_S, QUICK_LEDGER, a_gate, code_of, counter, entries, projects, soon, until
from tests.scenarios.crowd import add as counter_of_the_crowd
from tests.scenarios.test_concurrency import Crowd, statuses
from tests.scenarios.test_grants import grant
from tests.state_record import state_problems

STOCK = 12


@transition("stock.take", preconditions=["state['stock'] > 0"])
def take(inputs: dict[str, Json], state: Json) -> tuple[Json, str]:
    state["stock"] -= 1
    return state, "taken"


@transition("stock.fail")
def fail(inputs: dict[str, Json], state: Json) -> tuple[Json, str]:
    state.clear()
    raise ValueError("not today")


def own_tools() -> Sequence[Any]:
    return take, fail, counter()


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with Nursery() as nursery:
        yield nursery


def db_of(folder: Path) -> Path:
    return folder / "gate.db"


async def test_sixty_four_changes_at_once_are_a_few_commits_and_none_is_lost(tmp_path: Path) -> None:
    async with a_gate(tmp_path) as gate:
        await gate.call("state.set", path="/n", value=0)
        before = gate.ledger.figures()
        outcomes = await soon(
            asyncio.gather(*(gate.call("state.set", path=f"/at/{number}", value=number) for number in range(64)))
        )
        after = gate.ledger.figures()
        document = (await gate.ledger.state("default")).document
    assert [outcome.state_version for outcome in outcomes] == list(range(2, 66))
    assert document == {"n": 0, "at": {str(number): number for number in range(64)}}
    assert after.works - before.works == 64
    assert after.commits - before.commits < 16
    assert state_problems(db_of(tmp_path), ALLOW_ALL) == []


async def test_reading_the_state_waits_for_no_lock(tmp_path: Path) -> None:
    async with a_gate(tmp_path) as gate:
        await gate.call("state.set", path="/n", value=1)
        async with gate.ledger.lock_project("default"):
            outcome = await soon(gate.call("state.get", path="/n"))
            changing = asyncio.create_task(gate.call("state.set", path="/n", value=2))
            again = await soon(gate.call("state.get", path="/n"))
        assert ((outcome.data, outcome.state_version), again.data) == ((1, 1), 1)
        assert (await soon(changing)).ok
        assert (await gate.call("state.get", path="/n")).data == 2


async def test_what_was_read_or_told_is_the_callers_own(tmp_path: Path) -> None:
    async with a_gate(tmp_path) as gate:
        given: dict[str, Json] = {"lights": ["on"]}
        told = await gate.call("state.set", {"path": "/home", "value": given})
        read = await gate.call("state.get", path="/home")
        given["lights"].append("given")
        read.data["lights"].append("read")
        assert told.state_diff is not None
        told.state_diff[0]["value"]["lights"].append("told")
        assert (await gate.call("state.get", path="/home")).data == {"lights": ["on"]}
        assert (await gate.call("state.set", path="/n", value=1)).ok
    assert state_problems(db_of(tmp_path), ALLOW_ALL) == []


@pytest.mark.parametrize("padding", [0, TRANSITION_ON_LOOP_BYTES_MAX], ids=["on the loop", "in threads"])
async def test_a_precondition_is_judged_on_the_change_before_it(tmp_path: Path, padding: int) -> None:
    async with a_gate(tmp_path, ALLOW_ALL, *own_tools()) as gate:
        await gate.call("state.set", path="", value={"stock": STOCK, "padding": "x" * padding})
        outcomes = await soon(asyncio.gather(*(gate.call("stock.take") for _ in range(40))))
        state = await gate.ledger.state("default")
    ends = Counter((outcome.status.value, code_of(outcome)) for outcome in outcomes)
    assert (ends, state.document["stock"]) == ({("success", None): STOCK, ("denied", 1011): 40 - STOCK}, 0)
    assert state_problems(db_of(tmp_path), ALLOW_ALL, *own_tools()) == []


async def test_an_act_stands_on_the_changes_before_it_although_they_are_not_committed(tmp_path: Path) -> None:
    shipped: list[int] = []

    @tool("stock.ship", effect="write", preconditions=["state['stock'] > 0"])
    async def ship(number: int) -> None:
        shipped.append(number)

    async with a_gate(tmp_path, ALLOW_ALL, *own_tools(), ship) as gate:
        await gate.call("state.set", path="/stock", value=STOCK)
        calls = [gate.call("stock.take") for _ in range(STOCK)] + [gate.call("stock.ship", number=n) for n in range(8)]
        outcomes = await soon(asyncio.gather(*calls))
        late = await gate.call("stock.ship", number=99)
    assert code_of(late) == 1011
    assert sorted(shipped) == [n for n, outcome in enumerate(outcomes[STOCK:]) if outcome.ok]
    assert state_problems(db_of(tmp_path), ALLOW_ALL, *own_tools()) == []


@pytest.mark.parametrize(
    ("limits", "code"),
    [({"budget": {"daily": 20}}, 1013), ({"rate": {"per_minute": 20}}, 1012), ({"rate": {"per_hour": 20}}, 1012)],
)
async def test_changes_at_once_keep_within_a_limit_and_the_others_are_judged_again(
    tmp_path: Path, limits: Json, code: int
) -> None:
    policy = {**ALLOW_ALL, "limits": limits}
    async with a_gate(tmp_path, policy, counter(cost=1)) as gate:
        outcomes = await soon(asyncio.gather(*(gate.call("counter.add") for _ in range(50))))
        state = await gate.ledger.state("default")
    assert Counter(code_of(outcome) for outcome in outcomes) == {None: 20, code: 30}
    assert (state.version, state.document) == (20, {"n": 20})
    assert state_problems(db_of(tmp_path), policy, counter(cost=1)) == []


async def test_what_stood_on_a_refused_change_is_judged_again_and_not_lost(tmp_path: Path) -> None:
    """A grant for one use is found by two at once; the second finds it spent when others stand on its change."""
    policy: Mapping[str, Json] = {
        "rules": [{"pattern": name, "action": action} for name, action in (("asked.add*", "ask"), ("add*", "allow"))]
    }
    tools = counter("asked.add"), counter("add")
    async with a_gate(tmp_path, policy, *tools) as gate:
        await grant(gate, "asked.add", {}, terms=GrantTerms(uses=1))
        refusals = watch_refusals(gate)
        asked = [gate.call("asked.add", wait=False) for _ in range(2)]
        outcomes = await soon(asyncio.gather(*asked, *(gate.call("add") for _ in range(20))))
        state = await gate.ledger.state("default")
        ends = [outcome.status.value for outcome in outcomes]
        assert ends == ["success", "pending_approval"] + ["success"] * 20
        assert state.document == {"n": 22}, "the one that the person saw, the one that was granted, and twenty"
        assert {type(each) for each in refusals} == {GrantSpent, StateMoved}
    assert state_problems(db_of(tmp_path), policy, *tools) == []


def watch_refusals(gate: Gate) -> list[Committed]:
    """What the ledger refuses from now on of the work that stands on a state."""
    refusals: list[Committed] = []
    commit = gate.ledger.commit

    def watched(work: Work) -> Awaitable[Committed]:
        return heard(commit(work)) if work.stands_on else commit(work)

    async def heard(committing: Awaitable[Committed]) -> Committed:
        committed = await committing
        if not isinstance(committed, Applied):
            refusals.append(committed)
        return committed

    gate.ledger.commit = watched  # type: ignore[method-assign]
    return refusals


async def test_a_project_that_is_closed_meanwhile_denies_all_with_facts_of_states_that_were(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOW_ALL, counter()) as gate:
        calls = [asyncio.create_task(gate.call("counter.add")) for _ in range(10)]
        locking = asyncio.create_task(projects(gate).lock("default"))
        more = [asyncio.create_task(gate.call("state.set", path=f"/{n}", value=n)) for n in range(10)]
        await soon(locking)
        outcomes = await soon(asyncio.gather(*calls, *more))
        state = await gate.ledger.state("default")
    assert {code_of(outcome) for outcome in outcomes} <= {None, 1017}
    assert state.version == sum(outcome.ok for outcome in outcomes)
    assert state_problems(db_of(tmp_path), ALLOW_ALL, counter()) == []


async def test_calls_that_are_cancelled_anywhere_harm_no_other(tmp_path: Path) -> None:
    """The tasks of the calls themselves, as at the end of a program that is interrupted."""
    chance = random.Random(39)
    async with a_gate(tmp_path, ALLOW_ALL, *own_tools()) as gate:
        await gate.call("state.set", path="/stock", value=1_000)
        names = ["stock.take", "counter.add", "stock.fail"]
        callers = [asyncio.create_task(gate.call(names[number % 3])) for number in range(60)]
        sets = [asyncio.create_task(gate.call("state.set", path=f"/at/{n}", value=n)) for n in range(60)]
        for _ in range(25):
            await asyncio.sleep(0)
            begun = {task: task.get_coro() for task in gate._tasks.running}
            inner = [task for task, way in begun.items() if getcoroutinestate(way) == CORO_SUSPENDED]  # type: ignore[arg-type]
            if inner:  # on its way: nobody outside could cancel a call there
                chance.choice(inner).cancel()
        ends = await soon(asyncio.gather(*callers, *sets, return_exceptions=True))
        cancelled = sum(isinstance(end, asyncio.CancelledError) for end in ends)
        assert cancelled > 0
        outcomes = [end for end in ends if isinstance(end, Outcome)]
        assert len(outcomes) == 120 - cancelled
        assert {code_of(outcome) for outcome in outcomes} <= {None, 2003}
        again = await soon(asyncio.gather(*(gate.call("counter.add") for _ in range(5))))
        assert all(outcome.ok for outcome in again)
        told = {outcome.call_id: outcome.state_version for outcome in (*outcomes, *again) if outcome.ok}
        recorded = {row["call_id"]: row["body"].get("state_version") for row in entries(gate, "settled")}
        assert told.items() <= recorded.items()
    assert state_problems(db_of(tmp_path), ALLOW_ALL, *own_tools()) == []


async def test_a_writer_that_cannot_take_more_refuses_alone(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOW_ALL, counter(), ledger_bounds=replace(QUICK_LEDGER, writer_queue_max=5)) as gate:
        sets = [gate.call("state.set", path=f"/at/{n}", value=n) for n in range(30)]
        outcomes = await soon(asyncio.gather(*sets))
        state = await gate.ledger.state("default")
        done = [n for n, outcome in enumerate(outcomes) if outcome.ok]
        assert {code_of(outcome) for outcome in outcomes} == {None, 5002}
        assert state.document == {"at": {str(n): n for n in done}}
    assert state_problems(db_of(tmp_path), ALLOW_ALL, counter()) == []


async def test_a_series_of_changes_ends_so_that_another_gate_has_its_turn(tmp_path: Path) -> None:
    short = replace(QUICK_LEDGER, turns_max=8)
    async with (
        a_gate(tmp_path, ALLOW_ALL, counter(), ledger_bounds=short) as first,
        a_gate(tmp_path, ALLOW_ALL, counter(), ledger_bounds=short) as second,
    ):
        over = asyncio.Event()

        async def without_end() -> int:
            made = 0
            while not over.is_set():
                assert (await first.call("counter.add")).ok
                made += 1
            return made

        busy = [asyncio.create_task(without_end()) for _ in range(16)]
        outcomes = [await soon(second.call("counter.add")) for _ in range(10)]
        over.set()
        made = sum(await soon(asyncio.gather(*busy)))
        assert all(outcome.ok for outcome in outcomes)
        assert (await second.ledger.state("default")).document == {"n": made + 10}
    assert state_problems(db_of(tmp_path), ALLOW_ALL, counter()) == []


async def test_a_grant_is_not_spent_on_a_change_that_the_state_of_its_turn_allows(tmp_path: Path) -> None:
    """It was found on an earlier state, on which somebody would have had to agree."""
    careful = "get(state, 'careful', False)"
    rules = [
        {"pattern": "counter.add*", "action": "ask", "when": careful},
        {"pattern": "counter.add*", "action": "allow", "when": f"not {careful}"},
        {"pattern": "state.*", "action": "allow"},
    ]
    async with a_gate(tmp_path, {"rules": rules}, counter()) as gate:
        await gate.call("state.set", path="/careful", value=True)
        grant_id = await grant(gate, "counter.add", {})
        turn, turns = gate.ledger.turn, itertools.count()
        grants_of = gate.ledger.grants_of

        async def no_grants(*_: object) -> Sequence[Grant]:
            return ()

        @asynccontextmanager
        async def watched(project: str, *, alone: bool) -> AsyncIterator[Turn]:
            """In the first turn there is no grant yet; before the second one nobody needs it any more."""
            gate.ledger.turn = turn  # type: ignore[method-assign]
            number = next(turns)
            gate.ledger.grants_of = no_grants if number == 0 else grants_of  # type: ignore[assignment, method-assign]
            if number == 1:
                await gate.call("state.set", path="/careful", value=False)
            async with turn(project, alone=alone) as taken:
                yield taken
            gate.ledger.grants_of = grants_of  # type: ignore[method-assign]
            gate.ledger.turn = watched  # type: ignore[assignment, method-assign]

        gate.ledger.turn = watched  # type: ignore[assignment, method-assign]
        outcome = await soon(gate.call("counter.add"))
        assert (outcome.ok, next(turns)) == (True, 2)
        (left,) = await Approvals(gate).grants()
        settled = entries(gate, "settled")[-1]
    assert (left.grant_id, left.uses_left) == (grant_id, GrantTerms().uses)
    assert (settled["call_id"], settled["body"].get("resolution")) == (outcome.call_id, None)


async def test_all_who_wait_for_a_lock_that_is_not_to_be_had_are_refused_together(tmp_path: Path) -> None:
    """Not one after the other, each after a wait of its own."""
    tries, given_up = 0, asyncio.Event()

    class Locks(ProjectLocks):
        async def take(self, project: str) -> int:
            nonlocal tries
            tries += 1
            if tries == 1:
                await given_up.wait()
                raise StorageError("another process holds the lock")
            return await super().take(project)

    async def committed_elsewhere(_: Work) -> Committed:
        raise AssertionError("nothing is committed here")

    async def visit() -> int:
        async with turns.taken("default", committed_elsewhere, alone=False) as turn:
            return turn.state.version

    locks = Locks(LedgerFiles(tmp_path / "gate.db"))
    (tmp_path / "gate.db.d").mkdir()
    turns = Turns(locks, lambda _: ProjectState(7, {}))
    visits = [asyncio.create_task(visit()) for _ in range(5)]
    await asyncio.sleep(0)
    given_up.set()
    ends = await soon(asyncio.gather(*visits, return_exceptions=True))
    assert ([type(end) for end in ends], tries) == ([StorageError] * 5, 1)
    assert await soon(visit()) == 7


async def test_a_state_is_known_by_its_snapshot_and_not_by_its_number_alone(tmp_path: Path) -> None:
    """One that no call made is refused at once; no change would ever stand on it."""
    async with a_gate(tmp_path) as gate:
        await gate.call("state.set", path="/n", value=1)
        assert (await gate.call("state.get", path="/n")).data == 1
        with sqlite3.connect(db_of(tmp_path)) as connection:
            connection.execute("UPDATE heads SET snapshot_id = 'another' WHERE project = 'default'")
        connection.close()
        outcomes = await gate.call("state.get", path="/n"), await gate.call("state.set", path="/n", value=2)
    assert [code_of(outcome) for outcome in outcomes] == [5004, 5004]


async def test_turns_leave_no_lock_and_no_memory_behind(tmp_path: Path) -> None:
    async with a_gate(tmp_path) as gate:
        await soon(asyncio.gather(*(gate.call("state.set", path=f"/{n}", value=n) for n in range(20))))
        assert isinstance(gate.ledger, SqliteLedger)
        await until(lambda: not gate.ledger._turns._places)  # type: ignore[attr-defined]
        async with asyncio.timeout(PATIENCE_S), gate.ledger.lock_project("default"):
            pass


SET, PATCH, DELETE, GET, TAKE, ADD, FAIL, GIVE_UP = range(8)


@settings(max_examples=max(10, settings().max_examples // 4))
@given(
    st.lists(st.tuples(st.sampled_from(range(8)), st.integers(0, 3), st.integers(0, 5), st.booleans()), min_size=2),
    st.sampled_from([{}, {"limits": {"rate": {"per_minute": 15}}}]),
    st.integers(1, 4),
)
def test_however_calls_meet_the_record_is_one_line_of_states(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[int, int, int, bool]],
    limits: Mapping[str, Json],
    turns_max: int,
) -> None:
    folder = tmp_path_factory.mktemp("met")
    policy = {**ALLOW_ALL, **limits}
    told, found = asyncio.run(meet(folder, policy, steps, replace(QUICK_LEDGER, turns_max=turns_max)))
    assert told.items() <= found.items()
    assert state_problems(db_of(folder), policy, *own_tools()) == []


async def meet(
    folder: Path, policy: Mapping[str, Json], steps: Sequence[tuple[int, int, int, bool]], bounds: LedgerBounds
) -> tuple[dict[str, Any], dict[str, Any]]:
    """All steps at once, on two gates; what callers were told of each call, and what is recorded of it."""
    async with (
        a_gate(folder, policy, *own_tools(), ledger_bounds=bounds) as first,
        a_gate(folder, policy, *own_tools(), ledger_bounds=bounds) as second,
    ):
        outcomes: list[Outcome] = [await first.call("state.set", path="/stock", value=3)]

        async def one(kind: int, place: int, pause: int, elsewhere: bool) -> None:
            for _ in range(pause):
                await asyncio.sleep(0)
            gate = second if elsewhere else first
            task = asyncio.create_task(gate.call(*call_of(kind, place, pause)))
            if kind == GIVE_UP:
                await asyncio.sleep(0)
                task.cancel()
            with suppress(asyncio.CancelledError):
                outcomes.append(await task)

        await soon(asyncio.gather(*(one(*step) for step in steps)))
        await first.close()
        await second.close()
        assert {code_of(outcome) for outcome in outcomes} <= {None, 1011, 1012, 2002, 2003}
        found = {row["call_id"]: (row["status"], row["body"].get("state_version")) for row in entries(first, "settled")}
    return {outcome.call_id: (outcome.status.value, outcome.state_version) for outcome in outcomes}, found


def call_of(kind: int, place: int, value: int) -> tuple[str, dict[str, Json]]:
    path = f"/at/{place}"
    match kind:
        case 1:
            return "state.patch", {
                "patch": [{"op": "test", "path": path, "value": value}, {"op": "remove", "path": path}]
            }
        case 2:
            return "state.delete", {"path": path}
        case 3:
            return "state.get", {"path": "/at" if place else "/stock"}
        case 4:
            return "stock.take", {}
        case 5:
            return "counter.add", {}
        case 6:
            return "stock.fail", {}
        case _:
            return "state.set", {"path": path, "value": value}


def test_four_processes_change_one_state_at_once_and_its_record_is_one_line(nursery: Nursery, tmp_path: Path) -> None:
    crowd = Crowd(nursery, tmp_path)
    calls: list[list[list[Any]]] = [
        [["counter.add", {}, None], ["state.get", {"path": ""}, None]] * 60 for _ in range(4)
    ]
    outcomes = crowd.make_calls(calls)
    assert statuses(outcomes) == {("success", 0): 480}
    made = sorted(outcome["version"] for outcome in outcomes)
    assert Counter(made) >= Counter(range(1, 241))
    assert state_problems(crowd.db, ALLOW_ALL, counter_of_the_crowd) == []

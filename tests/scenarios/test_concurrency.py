"""Many calls at once, in one process and in four: none is lost, none happens twice, no limit is exceeded."""

from __future__ import annotations

import asyncio
import fcntl
import json
import random
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_gate.app import open_gate
from agent_gate.history.verify import verify
from agent_gate.model.bounds import BLOCKING_THREADS_MAX, OUTPUT_BYTES_MAX
from agent_gate.model.call import Agent
from agent_gate.model.entry import Draft, Kind
from agent_gate.model.errors import ToolError
from agent_gate.model.moment import iso
from agent_gate.model.tool import Json
from agent_gate.model.work import CreateProject, Work
from agent_gate.toolkit import tool
from tests.faults.nursery import Nursery
from tests.gates import ALLOW_ALL, PATIENCE_S, QUICK_GATE, a_gate, counter, reader, sender, soon

PROCESSES = 4


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with Nursery() as nursery:
        yield nursery


class Crowd:
    """Four processes that make their calls at the same moment."""

    def __init__(self, nursery: Nursery, folder: Path, policy: Mapping[str, Json] = ALLOW_ALL) -> None:
        self._nursery, self._folder, self._policy = nursery, folder, policy
        self.db, self.acts = folder / "a.db", folder / "acts"
        nursery.run("create", db=str(self.db))

    def make_calls(self, calls: Sequence[Sequence[Sequence[Any]]], run_id: str | None = None) -> list[dict[str, Any]]:
        """The outcomes, of all processes."""
        with Path(f"{self.acts}.go").open("w") as start:
            fcntl.flock(start, fcntl.LOCK_EX)
            children = [
                self._nursery.start(
                    "tests.scenarios.crowd:make_calls",
                    db=str(self.db),
                    policy=self._policy,
                    acts=str(self.acts),
                    calls=each,
                    run_id=run_id,
                )
                for each in calls
            ]
            assert [child.told(PATIENCE_S) for child in children] == [["here"]] * len(children)
        ends = [child.wait() for child in children]
        assert [code for code, _ in ends] == [0] * len(children)
        return [outcome for _, told in ends for outcome in told]

    def acted(self) -> Counter[str]:
        return Counter(self.acts.read_text().splitlines()) if self.acts.exists() else Counter()

    def sql(self, query: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.db)) as connection:
            return connection.execute(query).fetchall()


def statuses(outcomes: Sequence[Mapping[str, Any]]) -> Counter[tuple[str, int]]:
    return Counter((outcome["status"], outcome.get("code", 0)) for outcome in outcomes)


class TestTransitions:
    async def test_fifty_at_once_in_one_process_are_all_counted(self, tmp_path: Path) -> None:
        async with a_gate(tmp_path, ALLOW_ALL, counter()) as gate:
            outcomes = await asyncio.gather(*(gate.call("counter.add") for _ in range(50)))
            state = await gate.ledger.state("default")
        assert sorted(outcome.state_version or 0 for outcome in outcomes) == list(range(1, 51))
        assert (state.version, state.document) == (50, {"n": 50})

    def test_fifty_at_once_in_each_of_four_processes_are_all_counted(self, nursery: Nursery, tmp_path: Path) -> None:
        crowd = Crowd(nursery, tmp_path)
        outcomes = crowd.make_calls([[["counter.add", {}, None]] * 50] * PROCESSES)
        assert statuses(outcomes) == {("success", 0): 200}
        assert sorted(outcome["version"] for outcome in outcomes) == list(range(1, 201))
        assert crowd.sql("SELECT data FROM blobs JOIN snapshots ON hash = document WHERE version = 200") == [
            (b'{"n":200}',)
        ]
        assert verify(crowd.db).problems == ()

    @settings(max_examples=max(10, settings().max_examples // 10))
    @given(st.randoms(use_true_random=False), st.integers(1, 3), st.integers(2, 50))
    def test_no_interleaving_of_calls_on_several_projects_loses_one(
        self, tmp_path_factory: pytest.TempPathFactory, chance: random.Random, projects: int, calls: int
    ) -> None:
        folder = tmp_path_factory.mktemp("interleaved")
        wanted, found = asyncio.run(interleave(folder, chance, projects, calls))
        assert found == wanted


async def interleave(
    folder: Path, chance: random.Random, projects: int, calls: int
) -> tuple[dict[str, int], dict[str, int]]:
    """Calls that begin, wait and are given up in any order, on two gates; how often each project was changed."""
    names = [f"p{number}" for number in range(projects)]
    agent = Agent("ann", projects=("*",))
    succeeded: Counter[str] = Counter()

    @tool("slow.read", effect="read", cost=0, risk="low")
    async def read(turns: int) -> int:
        for _ in range(turns):
            await asyncio.sleep(0)
        return turns

    async with (
        open_gate(ALLOW_ALL, folder / "a.db", tools=[counter(), read], agent=agent) as first,
        open_gate(ALLOW_ALL, folder / "a.db", tools=[counter(), read], agent=agent) as second,
    ):
        for name in names:
            draft = Draft(Kind.PROJECT, iso(0), b"{}")
            await first.ledger.commit(Work(name, (draft,), (CreateProject(),)))

        async def one() -> None:
            gate, name = chance.choice([first, second]), chance.choice(names)
            for _ in range(chance.randrange(4)):
                await asyncio.sleep(0)
            if chance.random() < 0.3:
                await gate.call("slow.read", turns=chance.randrange(5), project=name)
            elif (await gate.call("counter.add", project=name)).ok:
                succeeded[name] += 1

        tasks = [asyncio.create_task(one()) for _ in range(calls)]
        await asyncio.gather(*tasks)
        found = {name: (await second.ledger.state(name)).document.get("n", 0) for name in names}
    return {name: succeeded[name] for name in names}, found


class TestLimits:
    def test_four_processes_spend_a_budget_to_its_end_and_no_further(self, nursery: Nursery, tmp_path: Path) -> None:
        crowd = Crowd(nursery, tmp_path, {**ALLOW_ALL, "limits": {"budget": {"daily": 50}}})
        calls = [[["line.append", {"token": f"{place}.{n}"}, None] for n in range(50)] for place in range(PROCESSES)]
        outcomes = crowd.make_calls(calls)
        assert statuses(outcomes) == {("success", 0): 16, ("denied", 1013): 184}
        assert (len(crowd.acted()), set(crowd.acted().values())) == (16, {1})
        assert crowd.sql("SELECT amount FROM counters WHERE scope = 'budget'") == [(48.0,)]

    @pytest.mark.parametrize("name", ["line.append", "clock.look", "counter.add"])
    def test_four_processes_keep_within_a_rate(self, nursery: Nursery, tmp_path: Path, name: str) -> None:
        crowd = Crowd(nursery, tmp_path, {**ALLOW_ALL, "limits": {"rate": {"per_minute": 30, "per_hour": 20}}})
        args = {"token": "t"} if name == "line.append" else {}
        outcomes = crowd.make_calls([[[name, args, None]] * 50] * PROCESSES)
        assert statuses(outcomes) == {("success", 0): 20, ("denied", 1012): 180}

    def test_four_processes_keep_within_the_quota_of_a_run(self, nursery: Nursery, tmp_path: Path) -> None:
        crowd = Crowd(nursery, tmp_path, {**ALLOW_ALL, "max_calls_per_tool": 7})
        outcomes = crowd.make_calls([[["clock.look", {}, None], ["counter.add", {}, None]] * 10] * PROCESSES, "run")
        assert statuses(outcomes) == {("success", 0): 14, ("denied", 1007): 66}

    async def test_fifty_reads_at_once_give_data_to_no_more_than_the_rate(self, tmp_path: Path) -> None:
        async with a_gate(tmp_path, {**ALLOW_ALL, "limits": {"rate": {"per_minute": 10}}}, reader([])) as gate:
            outcomes = await asyncio.gather(*(gate.call("note.read", text="secret") for _ in range(50)))
        assert Counter((outcome.ok, outcome.data is None) for outcome in outcomes) == {
            (True, False): 10,
            (False, True): 40,
        }


class TestRepeatedRequests:
    def test_four_processes_that_send_the_same_requests_act_once_and_hear_the_same(
        self, nursery: Nursery, tmp_path: Path
    ) -> None:
        crowd = Crowd(nursery, tmp_path)
        calls = [["line.append", {"token": f"t{n}"}, f"r{n}"] for n in range(20)]
        outcomes = crowd.make_calls([calls] * PROCESSES)
        heard = {outcome["request_id"]: set[tuple[str, str]]() for outcome in outcomes}
        for outcome in outcomes:
            heard[outcome["request_id"]].add((outcome["call_id"], outcome["status"]))
        assert crowd.acted() == {f"t{n}": 1 for n in range(20)}
        assert (len(outcomes), len(heard), statuses(outcomes)) == (80, 20, {("success", 0): 80})
        assert {len(each) for each in heard.values()} == {1}

    def test_one_request_id_for_four_different_calls_is_one_call_and_three_errors(
        self, nursery: Nursery, tmp_path: Path
    ) -> None:
        crowd = Crowd(nursery, tmp_path)
        outcomes = crowd.make_calls([[["line.append", {"token": f"t{place}"}, "r"]] for place in range(PROCESSES)])
        assert statuses(outcomes) == {("success", 0): 1, ("error", 2002): 3}
        assert len(crowd.acted()) == 1


class TestGoingAway:
    async def test_callers_that_are_cancelled_anywhere_leave_nothing_half_done(self, tmp_path: Path) -> None:
        acts: list[str] = []
        chance = random.Random(1)
        async with a_gate(tmp_path, ALLOW_ALL, sender(acts), counter(), reader([])) as gate:
            names = ["mail.send", "counter.add", "note.read"]
            tasks = [asyncio.create_task(gate.call(names[number % 3])) for number in range(90)]
            while not all(task.done() for task in tasks):
                chance.choice(tasks).cancel()
                await asyncio.sleep(0)
            given_up = sum(task.cancelled() for task in tasks)
        with closing(sqlite3.connect(tmp_path / "gate.db")) as connection:
            kinds = dict(
                connection.execute("SELECT kind, count(*) FROM entries WHERE project = 'default' GROUP BY kind")
            )
            statuses = connection.execute("SELECT DISTINCT status FROM entries WHERE kind = 'settled'").fetchall()
        assert given_up > 0
        assert kinds["performing"] == len(acts)
        assert statuses == [("success",)]
        assert verify(tmp_path / "gate.db").problems == ()

    async def test_closing_while_calls_run_lets_each_of_them_and_its_effect_end(self, tmp_path: Path) -> None:
        acts: list[str] = []
        begun = asyncio.Event()

        async def effect(outcome: dict[str, Json]) -> str:
            for _ in range(3):
                await asyncio.sleep(0.001)
            acts.append("effect")
            return "told"

        @tool("slow.act", post_execution=effect)
        async def act(number: int) -> int:
            begun.set()
            await asyncio.sleep(0.002 * number)
            acts.append("act")
            return number

        async with open_gate(ALLOW_ALL, tmp_path / "a.db", tools=[act]) as gate:
            tasks = [asyncio.create_task(gate.call("slow.act", number=number)) for number in range(20)]
            await begun.wait()
            await soon(gate.close())
            outcomes = await soon(asyncio.gather(*tasks))
            late = await gate.call("slow.act", number=1)
        done = [outcome for outcome in outcomes if outcome.ok]
        assert Counter(acts) == {"act": len(done), "effect": len(done)}
        assert {outcome.error.code for outcome in (*outcomes, late) if outcome.error} == {5002}
        assert recorded(tmp_path / "a.db", "effect") == {"success": len(done)}
        async with open_gate(ALLOW_ALL, tmp_path / "a.db"):
            pass
        assert recorded(tmp_path / "a.db", "settled") == {"success": len(done)}, "nothing was left in doubt"

    def test_an_effect_whose_process_is_killed_is_unknown_and_not_run_again(
        self, nursery: Nursery, tmp_path: Path
    ) -> None:
        db, acts = tmp_path / "a.db", tmp_path / "acts"
        child = nursery.start("tests.scenarios.crowd:leave_an_effect_open", db=str(db), acts=str(acts))
        told = child.told(PATIENCE_S)
        while "effect begun" not in told:
            told += child.told(PATIENCE_S)
        child.kill()
        for _ in range(2):
            nursery.run("create", db=str(db))
        assert recorded(db, "effect") == {"unknown": 1}
        assert recorded(db, "settled") == {"success": 1}
        assert acts.read_text() == "effect\n"


class TestEffects:
    @pytest.mark.parametrize(
        ("end", "code"),
        [
            (KeyError("x"), 2003),
            (TimeoutError("its own"), 2003),
            (SystemExit(1), 2003),
            (asyncio.CancelledError(), 2003),
            (ToolError("not now", code=2006), 2006),
            (object(), 2003),
            (float("nan"), 2003),
            ("x" * (OUTPUT_BYTES_MAX + 1), 2005),
        ],
        ids=lambda value: type(value).__name__,
    )
    async def test_however_an_effect_ends_it_is_recorded_and_the_gate_goes_on(
        self, tmp_path: Path, end: object, code: int
    ) -> None:
        async def effect(outcome: dict[str, Json]) -> object:
            if isinstance(end, BaseException):
                raise end
            return end

        async with a_gate(tmp_path, ALLOW_ALL, sender([], post_execution=effect), counter()) as gate:
            outcome = await gate.call("mail.send")
            assert (await gate.call("counter.add")).ok
        (found,) = bodies(tmp_path / "gate.db", "effect")
        assert outcome.ok
        assert found["error"]["code"] == code

    async def test_an_effect_that_takes_too_long_is_cut_off(self, tmp_path: Path) -> None:
        async def effect(outcome: dict[str, Json]) -> None:
            await asyncio.Event().wait()

        bounds = replace(QUICK_GATE, effect_timeout_s=0.01)
        async with a_gate(tmp_path, ALLOW_ALL, sender([], post_execution=effect), gate_bounds=bounds) as gate:
            assert (await gate.call("mail.send")).ok
        (found,) = bodies(tmp_path / "gate.db", "effect")
        assert found["error"]["code"] == 2004


def bodies(db: Path, kind: str) -> list[dict[str, Any]]:
    with closing(sqlite3.connect(db)) as connection:
        rows = connection.execute("SELECT body FROM entries WHERE kind = ? ORDER BY id", (kind,)).fetchall()
    return [json.loads(body) for (body,) in rows]


def recorded(db: Path, kind: str) -> dict[str, int]:
    with closing(sqlite3.connect(db)) as connection:
        query = "SELECT status, count(*) FROM entries WHERE kind = ? AND project = 'default' GROUP BY status"
        return dict(connection.execute(query, (kind,)))


class TestBlockingTools:
    @pytest.mark.parametrize("error", [StopIteration(1), StopAsyncIteration(), KeyError("x"), SystemExit(3)])
    async def test_whatever_a_blocking_tool_raises_is_its_own_failure_at_once(
        self, tmp_path: Path, error: BaseException
    ) -> None:
        @tool("block.raise")
        def act() -> None:
            raise error

        async with a_gate(tmp_path, ALLOW_ALL, act) as gate:
            outcome = await soon(gate.call("block.raise"))
        assert outcome.error is not None
        assert (outcome.status.value, outcome.error.code, type(error).__name__ in outcome.error.detail) == (
            "error",
            2003,
            True,
        )

    async def test_blocking_tools_of_many_calls_do_not_hold_up_the_others(self, tmp_path: Path) -> None:
        go_on = threading.Event()

        @tool("block.wait")
        def act() -> None:
            go_on.wait(PATIENCE_S)

        async with a_gate(tmp_path, ALLOW_ALL, act, counter()) as gate:
            blocked = [asyncio.create_task(gate.call("block.wait")) for _ in range(BLOCKING_THREADS_MAX + 3)]
            others = await soon(asyncio.gather(*(gate.call("counter.add") for _ in range(20))))
            go_on.set()
            ended = await soon(asyncio.gather(*blocked))
        assert all(outcome.ok for outcome in others)
        codes = Counter(outcome.error.code if outcome.error else 0 for outcome in ended)
        # Half of the places are for one agent; the rest of its calls wait for one, on a slow machine in vain.
        assert codes.keys() <= {0, 2006}
        assert codes[0] >= BLOCKING_THREADS_MAX // 2

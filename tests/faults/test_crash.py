"""Processes that share one ledger are killed at random points, hundreds of times, and every promise is kept."""

from __future__ import annotations

import os
import random
import select
import time
from pathlib import Path
from typing import Any

import pytest

from agent_gate.history.verify import verify
from tests.faults.examiner import Examiner, Witness
from tests.faults.nursery import Child, Nursery

THOROUGH = os.environ.get("AGENT_GATE_THOROUGH") == "1"
KILLS = 5_000 if THOROUGH else 250
WORKERS = 4
SEED = int(os.environ.get("AGENT_GATE_SEED", "20261115"))
READY_S = 30.0


class Worker:
    """One place at the ledger, held by one process after another."""

    def __init__(self, crew: Crew, name: str) -> None:
        self._crew, self._name = crew, name
        self._open: dict[str, list[Any]] = {}
        """Sent and not yet answered, by request id."""
        self.start()

    def start(self) -> None:
        self.instance = ""
        self.child: Child = self._crew.nursery.start(
            "work",
            db=str(self._crew.db),
            acts=str(self._crew.witness.acts),
            name=self._name,
            seed=self._crew.chance.randrange(1 << 30),
            lanes=3,
            repeat=list(self._open.values()),
        )

    def hear(self, messages: list[Any]) -> None:
        for message in messages:
            match message:
                case {"instance": instance}:
                    self.instance = instance
                case {"sent": [_, _, token] as sent}:
                    self._open[token] = sent
                case {"outcome": outcome}:
                    self._open.pop(outcome["request_id"], None)
                    self._crew.witness.outcomes[outcome["call_id"]] = outcome
                case other:
                    raise AssertionError(other)

    def kill(self) -> None:
        self.hear(self.child.kill())
        if self.instance:
            self._crew.witness.dead.add(self.instance)
        self._crew.kills += 1

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + READY_S
        while not self.instance:
            assert time.monotonic() < deadline, f"worker {self._name} did not start within {READY_S:g} s"
            self.hear(self.child.told(wait_s=1))


class Crew:
    def __init__(self, nursery: Nursery, folder: Path, chance: random.Random) -> None:
        self.nursery, self.chance = nursery, chance
        self.db = folder / "a.db"
        self.witness = Witness(folder / "acts")
        self.kills = 0
        nursery.run("create", db=str(self.db))
        self.workers = [Worker(self, f"w{number}") for number in range(WORKERS)]

    def listen(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left_s := until - time.monotonic()) > 0:
            by_pipe = {worker.child.fileno(): worker for worker in self.workers}
            for pipe in select.select(list(by_pipe), [], [], left_s)[0]:
                by_pipe[pipe].hear(by_pipe[pipe].child.told())

    def kill_some(self) -> None:
        """One, some or all; a successor may be killed while it starts."""
        number = self.chance.choice([1, 1, 2, 3, WORKERS])
        victims = self.chance.sample(self.workers, number)
        for worker in victims:
            worker.kill()
        for worker in victims:
            worker.start()
        for worker in victims:
            if self.chance.random() < 0.4:
                self.listen(self.chance.uniform(0, 0.05))
                worker.kill()
                worker.start()
        for worker in victims:
            worker.wait_until_ready()


@pytest.mark.serial
@pytest.mark.timeout(0 if THOROUGH else 300)
def test_no_kill_loses_an_acknowledged_entry_or_repeats_an_act_or_touches_a_live_call(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    with Nursery() as nursery:
        crew = Crew(nursery, tmp_path, chance)
        examiner = Examiner(crew.db, crew.witness)
        for worker in crew.workers:
            worker.wait_until_ready()
        while crew.kills < KILLS:
            crew.listen(chance.uniform(0, 0.06))
            crew.kill_some()
            assert (crew.kills, examiner.problems()) == (crew.kills, []), f"AGENT_GATE_SEED={SEED}"
        for worker in crew.workers:
            worker.kill()
        nursery.run("create", db=str(crew.db))
        assert examiner.problems(at_rest=True) == []
    assert verify(crew.db).problems == ()
    lost = sum(call.lost for call in examiner.calls.values())
    print(f"{crew.kills} kills, {examiner.entries} entries, {len(crew.witness.outcomes)} told, {lost} left in doubt")
    assert lost > crew.kills / 10, "kills must hit calls under way, or nothing is proved"

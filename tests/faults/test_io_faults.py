"""The disk fails at the first, second, third … change of a file, once or for a while: no call is half-done."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from agent_gate.history.verify import verify
from tests.faults.examiner import Examiner, Witness
from tests.faults.nursery import Nursery
from tests.faults.shim import Action, Fault, Op

AT_ONCE = 12
"""Programs that run side by side: most of their time they wait for the gate to reopen."""

THOROUGH = os.environ.get("AGENT_GATE_THOROUGH") == "1"

ONCE = {
    "a sync fails": Fault(Action.FAIL, Op.SYNC, "a.db"),
    "a write fails": Fault(Action.FAIL, Op.WRITE, "a.db"),
    "the disk is full at a write": Fault(Action.FAIL, Op.WRITE, "a.db", error=errno.ENOSPC),
    "a write is short": Fault(Action.SHORT, Op.WRITE, "a.db"),
    "a truncation or a change of names fails": Fault(Action.FAIL, Op.TRUNCATE | Op.NAME, "a.db"),
}

LASTING = {
    "the log cannot be synced": Fault(Action.FAIL, Op.SYNC, "a.db-wal", times=-1),
    "the log cannot be written": Fault(Action.FAIL, Op.WRITE, "a.db-wal", times=-1, error=errno.ENOSPC),
    "the log is written short": Fault(Action.SHORT, Op.WRITE, "a.db-wal", times=-1),
    "the anchor cannot be written": Fault(Action.FAIL, Op.WRITE, "a.db.anchor", times=-1, error=errno.ENOSPC),
    "the anchor is written short": Fault(Action.SHORT, Op.WRITE, "a.db.anchor", times=-1),
    "the anchor cannot be synced": Fault(Action.FAIL, Op.SYNC, "a.db.anchor", times=-1),
    "nothing can be changed": Fault(Action.FAIL, Op.ANY, "a.db", times=-1, error=errno.EROFS),
}


class Trial:
    """One program on a ledger of its own, with the fault at its own place."""

    def __init__(self, nursery: Nursery, folder: Path, program: str, fault: Fault, **arguments: Any) -> None:
        self._nursery, self._folder, self._is_finished = nursery, folder, False
        folder.mkdir()
        self.witness = Witness(folder / "acts")
        self._child = nursery.start(
            program, db=str(folder / "a.db"), acts=str(folder / "acts"), token="t", fault=asdict(fault), **arguments
        )

    def finish(self) -> tuple[int, int, list[Any]]:
        """The exit code, how often the fault fired, and what was told."""
        code, told = self._child.wait()
        self._is_finished = True
        self.witness.hear(told, died=True)
        return code, sum(message["fired"] for message in told if "fired" in message), told

    def end(self) -> None:
        if not self._is_finished:
            self._child.kill()

    def problems(self) -> list[str]:
        """After a process that found everything in order has settled the past."""
        again = self._nursery.run(
            "one_of_each", db=str(self._folder / "a.db"), acts=str(self._folder / "acts"), token="u"
        )
        self.witness.hear(again)
        report = verify(self._folder / "a.db")
        return [*Examiner(self._folder / "a.db", self.witness).problems(at_rest=True), *map(str, report.problems)]


def trials(nursery: Nursery, folder: Path, program: str, fault: Fault, step: int = 1) -> Iterator[tuple[int, Trial]]:
    """The fault at the first place, at the next `step` places on, and so on; several at once."""
    numbers = count(1, step)
    while True:
        batch = [next(numbers) for _ in range(AT_ONCE)]
        begun = [(nth, Trial(nursery, folder / str(nth), program, replace(fault, nth=nth))) for nth in batch]
        try:
            yield from begun
        finally:  # those that nobody looks at any more write into the folder too
            for _, trial in begun:
                trial.end()


def outcomes(told: list[Any]) -> list[tuple[str, str, int]]:
    found = [message["outcome"] for message in told if "outcome" in message]
    return [(each["request_id"].partition(" ")[2], each["status"], each.get("code", 0)) for each in found]


REFUSED = {("error", 5002), ("unknown", 5002)}


@pytest.mark.serial
@pytest.mark.parametrize("name", [name for name, fault in ONCE.items() if fault.ops & (Op.SYNC | Op.WRITE)])
def test_one_failure_anywhere_refuses_calls_and_then_mends(shimmed: Nursery, fast_path: Path, name: str) -> None:
    fault = ONCE[name]
    step = 1 if THOROUGH or fault.error != errno.ENOSPC else 3
    for nth, trial in trials(shimmed, fast_path, "through_a_fault", fault, step):
        code, fired, told = trial.finish()
        (before, *during, after_append, after_add) = outcomes(told)
        assert (nth, code, before) == (nth, 0, ("before", "success", 0))
        assert {ending[1:] for ending in during} <= {("success", 0), *REFUSED}
        assert {ending[1] for ending in during[1:]} <= {"success", "error"}, "only an act can be in doubt"
        assert (after_append, after_add) == (("after append", "success", 0), ("after add", "success", 0))
        assert (nth, trial.problems()) == (nth, [])
        if not fired:
            break
    print(f"{nth - 1} places, every {step}")


@pytest.mark.serial
@pytest.mark.parametrize("fault", LASTING.values(), ids=LASTING.keys())
def test_calls_are_refused_for_as_long_as_the_fault_lasts(shimmed: Nursery, fast_path: Path, fault: Fault) -> None:
    trial = Trial(shimmed, fast_path / "x", "through_a_fault", fault, lasting_s=1.6)
    code, fired, told = trial.finish()
    _, *during, after_append, after_add = outcomes(told)
    first = next(place for place, ending in enumerate(during) if ending[1] != "success")
    assert code == 0
    assert fired >= 2, "it tried to reopen while the fault lasted"
    assert {ending[1:] for ending in during[first:]} <= REFUSED
    assert {ending[1:] for ending in during[first + 1 :]} == {("error", 5002)}
    assert len(during) > 10
    assert (after_append, after_add) == (("after append", "success", 0), ("after add", "success", 0))
    assert trial.problems() == []


@pytest.mark.serial
@pytest.mark.parametrize("fault", ONCE.values(), ids=ONCE.keys())
def test_a_failure_while_the_ledger_opens_or_closes_is_a_coded_refusal(
    shimmed: Nursery, fast_path: Path, fault: Fault
) -> None:
    step = 1 if THOROUGH or fault.ops != Op.WRITE else 4
    for nth, trial in trials(shimmed, fast_path, "one_of_each", fault, step):
        code, fired, told = trial.finish()
        refusals = [message["refused"] for message in told if "refused" in message]
        assert (nth, code) == (nth, 0), "no traceback"
        assert set(refusals) <= {5001, 5002}
        assert (nth, trial.problems()) == (nth, [])
        if not fired:
            break
    print(f"{nth - 1} places, every {step}")


@pytest.mark.serial
@pytest.mark.parametrize("tool_name", ["line.append", "counter.add", "clock.look"])
def test_what_a_failed_sync_refused_does_not_come_to_life_after_a_crash(
    shimmed: Nursery, fast_path: Path, tool_name: str
) -> None:
    for nth in count(1):
        fault = Fault(Action.FAIL, Op.SYNC, "a.db", nth=nth, times=-1)
        trial = Trial(shimmed, fast_path / str(nth), "fail_then_die", fault, tool_name=tool_name)
        _, fired, _ = trial.finish()
        assert (nth, trial.problems()) == (nth, [])
        recorded = Examiner(fast_path / str(nth) / "a.db", trial.witness)
        recorded.problems()
        endings = {call_id: call.endings for call_id, call in recorded.calls.items()}
        ((call_id, outcome),) = [
            (key, each) for key, each in trial.witness.outcomes.items() if each["request_id"] == "t"
        ]
        told_ending = {"success": ["success"], "unknown": ["unknown"], "error": []}[outcome["status"]]
        assert (nth, endings.get(call_id, [])) == (nth, told_ending)
        if not fired:
            break
    assert nth > 1

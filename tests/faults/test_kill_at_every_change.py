"""One process is killed at the first, second, third … change to a file on a call's way, until none is left."""

from __future__ import annotations

from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.faults.examiner import Examiner, Witness
from tests.faults.nursery import Nursery
from tests.faults.shim import Action, Fault


def hear(witness: Witness, told: list[Any], *, died: bool) -> bool:
    """Keeps what a program told; whether it came to its end."""
    closed = False
    for message in told:
        match message:
            case {"instance": instance} if died:
                witness.dead.add(instance)
            case {"outcome": outcome}:
                witness.outcomes[outcome["call_id"]] = outcome
            case {"closed": _}:
                closed = True
    return closed


@pytest.mark.serial
@pytest.mark.parametrize("action", [Action.KILL, Action.TEAR])
def test_a_kill_at_any_change_of_a_file_leaves_every_promise_kept(
    shimmed: Nursery, tmp_path: Path, action: Action
) -> None:
    db = tmp_path / "a.db"
    witness = Witness(tmp_path / "acts")
    examiner = Examiner(db, witness)
    shimmed.run("create", db=str(db))
    for nth in count(1):
        program: dict[str, Any] = {"db": str(db), "acts": str(witness.acts), "token": f"kill{nth}"}
        fault = Fault(action, match="a.db", nth=nth)
        code, told = shimmed.start("one_of_each", **program, fault=asdict(fault)).wait()
        closed = hear(witness, told, died=True)
        again = shimmed.run("one_of_each", **program)
        assert hear(witness, again, died=False)
        assert (nth, code, examiner.problems(at_rest=True)) == (nth, 0 if closed else -9, [])
        if closed:
            break
    print(f"{nth - 1} changes")
    assert nth > 50, "a call's way has more changes than that"


@pytest.mark.serial
@pytest.mark.parametrize("action", [Action.KILL, Action.TEAR])
def test_a_kill_at_any_change_while_the_ledger_is_made_leaves_one_that_opens(
    shimmed: Nursery, tmp_path: Path, action: Action
) -> None:
    for nth in count(1):
        folder = tmp_path / str(nth)
        folder.mkdir()
        program: dict[str, Any] = {"db": str(folder / "a.db"), "acts": str(folder / "acts"), "token": "first"}
        fault = Fault(action, match="a.db", nth=nth)
        code, told = shimmed.start("one_of_each", **program, fault=asdict(fault)).wait()
        witness = Witness(folder / "acts")
        closed = hear(witness, told, died=True)
        assert hear(witness, shimmed.run("one_of_each", **program), died=False)
        problems = Examiner(folder / "a.db", witness).problems(at_rest=True)
        assert (nth, code, problems) == (nth, 0 if closed else -9, [])
        if closed:
            break
    print(f"{nth - 1} changes")
    assert nth > 100, "making a ledger has more changes than that"

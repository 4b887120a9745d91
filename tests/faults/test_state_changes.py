"""The disk fails, or the process dies, while changes of one state stand on each other: each is whole or not at all."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.faults.nursery import Child, Nursery
from tests.faults.programs import POLICY
from tests.faults.shim import Action, Fault, Op
from tests.state_record import state_problems

AT_ONCE = 6
STEP = 7
"""A ledger is made with many writes before the first change."""
FAULTS = {
    "a sync of the log fails": (Fault(Action.FAIL, Op.SYNC, "a.db-wal"), 1),
    "a write fails": (Fault(Action.FAIL, Op.WRITE, "a.db"), STEP),
    "a line of the anchor is short": (Fault(Action.SHORT, Op.WRITE, "a.db.anchor"), 1),  # SQLite goes on with its own
}


def children(nursery: Nursery, folder: Path, fault: Fault, step: int) -> Iterator[tuple[Path, Child]]:
    """The fault at the first place, at the next `step` places on, and so on; several at once."""
    numbers = count(1, step)
    while True:
        batch = []
        for nth in [next(numbers) for _ in range(AT_ONCE)]:
            place = folder / str(nth)
            place.mkdir()
            arguments: dict[str, Any] = {"db": str(place / "a.db"), "acts": str(place / "acts"), "token": "t"}
            fault_there = asdict(replace(fault, nth=nth))
            batch.append((place / "a.db", nursery.start("change_at_once", fault=fault_there, **arguments)))
        waiting = dict(batch)
        try:
            for db, child in batch:
                del waiting[db]
                yield db, child
        finally:  # those that nobody waits for any more write into the folder too
            for child in waiting.values():
                child.kill()


def misfits(db: Path, told: Sequence[Any], *, died: bool) -> list[str]:
    """Where what callers were told and the last state differ: what was told is there, and nothing that was refused."""
    with closing(sqlite3.connect(db)) as connection:
        row = connection.execute(
            "SELECT data FROM blobs JOIN snapshots ON hash = document WHERE project = 'default'"
            " ORDER BY version DESC LIMIT 1"
        ).fetchone()
    there = set(json.loads(row[0]).get("at", {})) if row else set()
    done = {each["set"] for each in told if each.get("status") == "success"}
    refused = {each["set"] for each in told if "set" in each} - done
    versions = [each["version"] for each in told if each.get("status") == "success"]
    found = [f"{name} was told and is not there" for name in done - there]
    found += [f"{name} was refused and is there" for name in refused & there]
    if not died:
        found += [f"{name} is there and was not told" for name in there - done]
    if len(versions) != len(set(versions)):
        found.append("one version was told twice")
    return found


@pytest.mark.serial
@pytest.mark.parametrize("name", FAULTS)
def test_a_failed_commit_fails_every_change_that_stood_on_it_and_no_other(
    shimmed: Nursery, fast_path: Path, name: str
) -> None:
    refused, (fault, step) = 0, FAULTS[name]
    for place, (db, child) in enumerate(children(shimmed, fast_path, fault, step)):
        code, told = child.wait()
        fired = sum(each.get("fired", 0) for each in told)
        ends = {(each["status"], each.get("code", 0)) for each in told if "set" in each}
        assert (code, len([each for each in told if "set" in each])) == (0, 72), "each call has one answer"
        assert ends <= {("success", 0), ("error", 5002)}
        assert (place, misfits(db, told, died=False)) == (place, [])
        assert (place, state_problems(db, POLICY)) == (place, [])
        refused += ("error", 5002) in ends
        if not fired or place >= 30:
            break
    assert refused > 0, "the faults must hit changes under way, or nothing is proved"


@pytest.mark.serial
@pytest.mark.parametrize("action", [Action.KILL, Action.TEAR])
def test_a_process_that_dies_leaves_whole_changes_and_no_gap(shimmed: Nursery, fast_path: Path, action: Action) -> None:
    fault, deaths = Fault(action, Op.WRITE | Op.SYNC, "a.db"), 0
    for place, (db, child) in enumerate(children(shimmed, fast_path, fault, step=2)):
        code, told = child.wait()
        shimmed.run("create", db=str(db))
        assert (place, misfits(db, told, died=True)) == (place, [])
        assert (place, state_problems(db, POLICY)) == (place, [])
        deaths += code != 0
        if code == 0 or place >= 30:
            break
    assert deaths > 0

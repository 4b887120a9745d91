"""The power fails at any point, and what was not synced is lost in part: all that was told or done is on record."""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path

import pytest

from agent_gate.history.verify import verify
from tests.faults.disk import Disk
from tests.faults.examiner import Examiner, Witness
from tests.faults.nursery import Nursery
from tests.faults.shim import Recorded, recorded

THOROUGH = os.environ.get("AGENT_GATE_THOROUGH") == "1"
LOSSES = 5_000 if THOROUGH else 100
SEED = int(os.environ.get("AGENT_GATE_SEED", "20261115"))


def witness_of(changes: list[Recorded], acts: Path) -> Witness:
    """What callers had been told and tools had done when the power failed."""
    witness = Witness(acts)
    notes = [change.path for change in changes if change.operation == "!"]
    acts.write_text("".join(f"{note}\n" for note in notes if note.startswith("act ")))
    witness.hear((json.loads(note) for note in notes if note.startswith("{")), died=True)
    return witness


@pytest.mark.serial
def test_no_loss_of_power_loses_what_was_told_or_an_intent_of_what_was_done(shimmed: Nursery, fast_path: Path) -> None:
    chance = random.Random(SEED)
    before, running = fast_path / "before", fast_path / "running"
    before.mkdir()
    shimmed.run("create", db=str(before / "a.db"))
    shutil.copytree(before, running)
    shimmed.run("write_down", db=str(running / "a.db"), log=str(fast_path / "log"), part=str(running), calls=60)
    changes = list(recorded((fast_path / "log").read_bytes()))
    syncs = sum(change.operation == "s" for change in changes)
    for number in range(LOSSES):
        point = chance.randrange(len(changes))
        disk = Disk(before)
        disk.apply(moved(change, running, before) for change in changes[:point])
        folder = fast_path / str(number)
        disk.lose_power(folder, chance)
        shimmed.run("create", db=str(folder / "a.db"))
        examiner = Examiner(folder / "a.db", witness_of(changes[:point], folder / "acts"))
        assert (number, point, examiner.problems(at_rest=True)) == (number, point, []), f"AGENT_GATE_SEED={SEED}"
        assert (number, point, verify(folder / "a.db").problems) == (number, point, ())
        shutil.rmtree(folder)
    print(f"{LOSSES} losses among {len(changes)} changes and {syncs} syncs")


def moved(change: Recorded, here: Path, there: Path) -> Recorded:
    data = change.data
    if change.operation in ("r", "l"):
        data = data.replace(str(here).encode(), str(there).encode())
    return Recorded(change.operation, change.path.replace(str(here), str(there)), change.offset, data)

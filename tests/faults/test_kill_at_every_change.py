"""One process is killed at the first, second, third … change to a file on a call's way, until none is left."""

from __future__ import annotations

import os
import signal
from contextlib import closing
from dataclasses import asdict, replace
from itertools import count
from pathlib import Path
from shutil import copy, copytree
from typing import Any

import pytest

from agent_gate.history.verify import verify
from agent_gate.ledger.sqlite.connection import connect
from agent_gate.ledger.sqlite.migrate import HEADS, revisions
from tests.faults.examiner import Examiner, Witness
from tests.faults.nursery import Nursery
from tests.faults.shim import Action, Fault, Op

KILLS = [Fault(Action.KILL, match="a.db"), Fault(Action.TEAR, Op.WRITE, match="a.db")]
STEP = 1 if os.environ.get("AGENT_GATE_THOROUGH") == "1" else 5
"""Making a ledger is slow to try: every one of its changes only where there is time."""


@pytest.mark.serial
@pytest.mark.parametrize("fault", KILLS, ids=["before it", "in the middle of it"])
def test_a_kill_at_any_change_of_a_file_leaves_every_promise_kept(
    shimmed: Nursery, fast_path: Path, fault: Fault
) -> None:
    db = fast_path / "a.db"
    witness = Witness(fast_path / "acts")
    examiner = Examiner(db, witness)
    shimmed.run("create", db=str(db))
    for nth in count(1):
        program: dict[str, Any] = {"db": str(db), "acts": str(witness.acts), "token": f"kill{nth}"}
        code, told = shimmed.start("one_of_each", **program, fault=asdict(replace(fault, nth=nth))).wait()
        witness.hear(told, died=True)
        witness.hear(shimmed.run("one_of_each", **program))
        assert (nth, examiner.problems(at_rest=True)) == (nth, [])
        if code == 0:
            break
        assert code == -signal.SIGKILL
    print(f"{nth - 1} changes")
    assert nth > 50, "a call's way has more changes than that"


@pytest.mark.serial
@pytest.mark.parametrize("fault", KILLS, ids=["before it", "in the middle of it"])
def test_a_kill_at_any_change_while_the_ledger_is_made_leaves_one_that_opens(
    shimmed: Nursery, fast_path: Path, fault: Fault
) -> None:
    for nth in count(1, STEP):
        folder = fast_path / str(nth)
        folder.mkdir()
        program: dict[str, Any] = {"db": str(folder / "a.db"), "acts": str(folder / "acts"), "token": "first"}
        code, told = shimmed.start("one_of_each", **program, fault=asdict(replace(fault, nth=nth))).wait()
        witness = Witness(folder / "acts")
        witness.hear(told, died=True)
        witness.hear(shimmed.run("one_of_each", **program))
        assert (nth, Examiner(folder / "a.db", witness).problems(at_rest=True)) == (nth, [])
        if code == 0:
            break
        assert code == -signal.SIGKILL
    print(f"{nth - 1} changes")
    assert nth > 100, "making a ledger has more changes than that"


EARLIER = Path(__file__).parents[1] / "fixtures" / "recorded" / "schema-0002.db"


@pytest.mark.serial
def test_a_kill_at_any_change_while_a_ledger_is_upgraded_leaves_the_old_schema_or_the_new(
    shimmed: Nursery, fast_path: Path
) -> None:
    seen: set[frozenset[str]] = set()
    for nth in count(1, STEP):
        db = fast_path / str(nth) / "a.db"
        db.parent.mkdir()
        for end in ("", ".anchor", ".d"):
            (copytree if end == ".d" else copy)(f"{EARLIER}{end}", f"{db}{end}")
        fault = Fault(Action.KILL, match="a.db", nth=nth)
        code, _ = shimmed.start("create", db=str(db), fault=asdict(fault)).wait()
        with closing(connect(db, read_only=True)) as connection:
            found = revisions(connection)
            has_new_tables = connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'contact_info'")
            assert has_new_tables.fetchone()[0] == (found == HEADS)
        seen.add(found)
        shimmed.run("create", db=str(db))
        assert (nth, verify(db).problems) == (nth, ())
        if code == 0:
            break
        assert code == -signal.SIGKILL
    assert seen == {frozenset({"0002"}), HEADS}

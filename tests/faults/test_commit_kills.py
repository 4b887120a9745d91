"""A process is killed at the first, second, third … step of committing what a command wrote: all of it, or nothing."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from agent_gate.history.verify import verify
from agent_gate.sandbox.choice import Choice
from tests.faults.nursery import Nursery
from tests.faults.shim import Action, Fault

THOROUGH = os.environ.get("AGENT_GATE_THOROUGH") == "1"
MANY = 1_000
_picked = asyncio.run(Choice().pick("auto"))
pytestmark = [
    pytest.mark.serial,
    pytest.mark.skipif(
        _picked is None or not _picked.layers, reason="no sandbox of this machine keeps apart what a command writes"
    ),
]

EVERY_KIND = """
echo new > changed; chmod 700 moded; rm removed; rm -r tree; mkdir -p fresh/deep; echo f > fresh/deep/f
ln -s changed link; rm -r becomes_file; echo now > becomes_file; rm becomes_tree; mkdir becomes_tree
echo in > becomes_tree/in; echo added > added; touch -d @1000000000 touched
"""


@pytest.fixture
def work(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    for folder in ("tree/deep", "becomes_file/deep"):
        (work / folder).mkdir(parents=True)
    for name in ("changed", "moded", "removed", "tree/a", "tree/deep/b", "becomes_file/c", "becomes_tree", "touched"):
        (work / name).write_text(f"old {name}\n")
    return work


def seen(work: Path) -> dict[str, tuple[int, bytes | str | None]]:
    found: dict[str, tuple[int, bytes | str | None]] = {}
    for path in sorted(work.rglob("*")):
        content = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        found[str(path.relative_to(work))] = path.lstat().st_mode, content
    return found


def settled(db: Path) -> list[str]:
    with closing(sqlite3.connect(f"file:{db}?mode=ro", uri=True)) as connection:
        rows = connection.execute("SELECT status FROM entries WHERE kind = 'settled' ORDER BY id").fetchall()
        assert connection.execute("SELECT count(*) FROM open_work").fetchone() == (0,)
    return [status for (status,) in rows]


def kills(shimmed: Nursery, tmp_path: Path, work: Path, script: str, steps: Iterator[int]) -> int:
    """How many steps were tried; after each kill the next start leaves all or nothing, and says which."""
    db, before = tmp_path / "a.db", seen(work)
    shimmed.run("one_command", db=str(db), work=str(work), script="")
    undo = _Copy(work)
    ends: set[str] = set()
    for nth in steps:
        fault = Fault(Action.KILL, match=f"{work}/", nth=nth)
        program: dict[str, Any] = {"db": str(db), "work": str(work), "script": script}
        code, _ = shimmed.start("one_command", **program, fault=asdict(fault)).wait()
        shimmed.run("one_command", **{**program, "script": ""})
        now, status = seen(work), settled(db)[-1]
        ends.add(status)
        assert (nth, status, now == before) in ((nth, "error", True), (nth, "success", False)), sorted(now)
        if code == 0:
            break
        assert code == -signal.SIGKILL
        if status == "success":
            assert now == undo.after(now)
        undo.bring_back()
        assert seen(work) == before
    assert ends == {"error", "success"}
    assert verify(db).problems == ()
    assert not list((tmp_path / "a.db.d").glob("staged-*"))
    return nth


class _Copy:
    """The tree as it was, and what the first whole commit made of it: every later one must come to the same."""

    def __init__(self, work: Path) -> None:
        self._work, self._kept = work, work.with_name("kept")
        shutil.copytree(work, self._kept, symlinks=True)
        self._after: dict[str, tuple[int, bytes | str | None]] | None = None

    def after(self, now: dict[str, tuple[int, bytes | str | None]]) -> object:
        self._after = self._after or now
        return self._after

    def bring_back(self) -> None:
        shutil.rmtree(self._work)
        shutil.copytree(self._kept, self._work, symlinks=True)


def test_a_kill_at_any_step_of_a_commit_leaves_all_of_it_or_nothing(
    shimmed: Nursery, tmp_path: Path, work: Path
) -> None:
    tried = kills(shimmed, tmp_path, work, EVERY_KIND, count(1))
    print(f"{tried - 1} steps")
    assert tried > 30, "a commit of every kind of change has more steps than that"


def test_a_command_that_writes_a_thousand_files_commits_all_or_none(
    shimmed: Nursery, tmp_path: Path, work: Path
) -> None:
    for number in range(MANY):
        (work / f"f{number}").write_text(f"old {number}\n")
    script = f"i=0; while [ $i -lt {MANY} ]; do echo new $i > f$i; i=$((i+1)); done"
    tried = kills(shimmed, tmp_path, work, script, count(1) if THOROUGH else count(1, 997))
    assert tried > 3 * MANY


def test_a_disk_that_fails_at_any_step_leaves_nothing_of_the_command(
    shimmed: Nursery, tmp_path: Path, work: Path
) -> None:
    db, before = tmp_path / "a.db", seen(work)
    shimmed.run("one_command", db=str(db), work=str(work), script="")
    fault = Fault(Action.FAIL, match=f"{work}/")
    for nth in count(1):
        program = {"db": str(db), "work": str(work), "script": EVERY_KIND, "fault": asdict(replace(fault, nth=nth))}
        code, [told] = shimmed.start("one_command", **program).wait()
        assert code == 0
        if told["status"] == "success":
            break
        assert (nth, told["status"], seen(work) == before) == (nth, "error", True)
    assert nth > 20

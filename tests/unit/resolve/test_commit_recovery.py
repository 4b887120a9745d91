"""A commit that was left half-way: finished, rolled back, or told as in doubt, by what stands where."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

import pytest

from agent_gate.resolve.commit import journal, steps
from agent_gate.resolve.commit.change import Change
from agent_gate.resolve.commit.folders import Folders
from agent_gate.resolve.commit.node import Identity, Node, node_at
from agent_gate.resolve.commit.recovery import End, Recovered, finisher, recover
from agent_gate.resolve.commit.transaction import Transaction
from agent_gate.resolve.commit.units import in_order


@pytest.fixture
def work(tmp_path: Path) -> Path:
    work = tmp_path.resolve() / "work"
    work.mkdir()
    for name in ("a", "b", "m"):
        (work / name).write_text(f"old {name}")
    return work


def rewritten(path: Path, content: bytes) -> Change:
    status = path.lstat()
    before = node_at(str(path), status)
    after = Node("file", before.mode, len(content), 5, sha256(content).hexdigest())
    return Change(str(path), before, after, Identity.of(status), source=content)


def remoded(path: Path) -> Change:
    status = path.lstat()
    before = node_at(str(path), status)
    after = Node("file", 0o700, before.size, 1_000_000_000, before.sha256)
    return Change(str(path), before, after, Identity.of(status))


class Left:
    """A transaction that was staged and journalled; the process is gone after the steps that a test makes."""

    def __init__(self, *changes: Change, notes: Path) -> None:
        self._transaction = Transaction("call", changes, str(notes / "staged"))
        self._transaction.stage()
        self.units = self._transaction.units
        self.journal = journal.encode(self.units, changes)

    def make(self, at: int) -> None:
        with Folders() as folders:
            steps.make(self.units[at], folders)


def names(work: Path) -> list[str]:
    return sorted(os.listdir(work))


def test_a_mode_that_was_set_without_its_time_is_set_again(work: Path, tmp_path: Path) -> None:
    left = Left(remoded(work / "m"), notes=tmp_path)
    (work / "m").chmod(0o700)
    assert recover(left.journal) == Recovered(End.FINISHED)
    status = (work / "m").stat()
    assert (status.st_mode & 0o777, status.st_mtime_ns) == (0o700, 1_000_000_000)


def test_what_somebody_replaced_after_its_step_is_in_doubt(work: Path, tmp_path: Path) -> None:
    left = Left(rewritten(work / "a", b"new"), notes=tmp_path)
    left.make(0)
    (work / "mine").write_text("mine")
    (work / "mine").rename(work / "a")
    assert recover(left.journal) == Recovered(End.IN_DOUBT, (str(work / "a"),))
    assert (work / "a").read_text() == "mine"


def test_what_somebody_replaced_before_its_step_takes_the_others_back(work: Path, tmp_path: Path) -> None:
    left = Left(rewritten(work / "a", b"new"), rewritten(work / "b", b"new"), notes=tmp_path)
    left.make(0)
    (work / "mine").write_text("mine")
    (work / "mine").rename(work / "b")
    assert recover(left.journal) == Recovered(End.ROLLED_BACK)
    assert ((work / "a").read_text(), (work / "b").read_text()) == ("old a", "mine")
    assert names(work) == ["a", "b", "m"]


def test_a_recovery_that_was_itself_cut_short_is_begun_again(work: Path, tmp_path: Path) -> None:
    left = Left(rewritten(work / "a", b"new"), rewritten(work / "b", b"new"), notes=tmp_path)
    left.make(0)
    left.make(1)
    with Folders() as folders:
        steps.clear(left.units[0], folders)
    assert [recover(left.journal), recover(left.journal)] == [Recovered(End.FINISHED)] * 2
    assert ((work / "a").read_text(), (work / "b").read_text(), names(work)) == ("new", "new", ["a", "b", "m"])


def test_a_place_that_cannot_be_looked_at_is_in_doubt_and_no_obstacle_to_a_start(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = Left(rewritten(work / "a", b"new"), notes=tmp_path)

    def failing(_: object, path: str) -> None:
        raise PermissionError(13, "not for you", path)

    monkeypatch.setattr(Folders, "status", failing)
    finish = finisher(lambda call_id: str(tmp_path / call_id))
    ended = finish("call", left.journal)
    assert (ended.made, ended.in_doubt) == (False, (str(work / "a"),))


def test_modes_of_directories_come_last_and_the_deepest_first(work: Path) -> None:
    (work / "d" / "e").mkdir(parents=True)
    changes = []
    for path in (work / "d", work / "d" / "e"):
        status = path.lstat()
        changes.append(Change(str(path), node_at(str(path), status), Node("directory", 0o500), Identity.of(status)))
    changes.append(Change(str(work / "d" / "e" / "new"), None, Node("file", 0o600)))
    assert [group.top.path for group in in_order(changes)] == [f"{work}/d/e/new", f"{work}/d/e", f"{work}/d"]


def test_what_was_replaced_goes_though_its_directory_may_not_be_written(work: Path) -> None:
    (work / "d" / "closed").mkdir(parents=True)
    (work / "d" / "closed" / "x").write_text("x")
    for path in (work / "d" / "closed", work / "d"):
        path.chmod(0o500)
    with Folders() as folders:
        folders.remove_tree(f"{work}/d/closed")
    assert (os.listdir(work / "d"), (work / "d").stat().st_mode & 0o777) == ([], 0o500)

"""A backup is a ledger of its own: private, complete, consistent, and never in the place of anything."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path

import pytest

from agent_gate.history.state import show
from agent_gate.history.verify import verify
from agent_gate.ledger.files import LedgerFiles
from agent_gate.ledger.sqlite.backup import backup
from agent_gate.ledger.sqlite.reader import open_reader
from agent_gate.model.errors import GateError
from agent_gate.ports.storage import Backup
from tests.unit.history.made import Made, gate_at


def files_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_backup_verifies_like_the_original(made: Made, tmp_path: Path) -> None:
    copied = backup(made.db, tmp_path / "b.db")
    assert verify(tmp_path / "b.db") == verify(made.db)
    assert copied == Backup(tmp_path / "b.db", verify(made.db).entries, (tmp_path / "b.db").stat().st_size)


def test_a_backup_is_private_and_needs_no_log_beside_it(made: Made, tmp_path: Path) -> None:
    backup(made.db, tmp_path / "b.db")
    modes = {name: (tmp_path / name).stat().st_mode & 0o777 for name in files_below(tmp_path)}
    assert modes == {
        "b.db": 0o600,
        "b.db.anchor": 0o600,
        "b.db.d": 0o700,
        "b.db.d/anchor.key": 0o600,
        "b.db.d/secret.key": 0o600,
    }


@pytest.mark.parametrize("taken", ["b.db", "b.db.anchor", "b.db.d"])
def test_nothing_is_overwritten(made: Made, tmp_path: Path, taken: str) -> None:
    (tmp_path / taken).write_text("mine")
    with pytest.raises(GateError, match="exists already") as refused:
        backup(made.db, tmp_path / "b.db")
    assert refused.value.code == 5001
    assert files_below(tmp_path) == [taken]
    assert (tmp_path / taken).read_text() == "mine"


def test_a_link_that_leads_nowhere_is_not_written_through(made: Made, tmp_path: Path) -> None:
    (tmp_path / "b.db").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(GateError, match="exists already"):
        backup(made.db, tmp_path / "b.db")
    assert not (tmp_path / "elsewhere").exists()


def test_what_is_no_ledger_is_not_backed_up(tmp_path: Path) -> None:
    (tmp_path / "a.db").write_bytes(b"")
    with pytest.raises(GateError) as refused:
        backup(tmp_path / "a.db", tmp_path / "b.db")
    assert refused.value.code == 5001
    assert files_below(tmp_path) == ["a.db"]


def test_a_backup_that_fails_leaves_nothing_behind(made: Made, tmp_path: Path) -> None:
    def fail(done: int, total: int) -> None:
        raise OSError("no space left")

    with pytest.raises(GateError, match="cannot write the backup") as failed:
        backup(made.db, tmp_path / "b.db", progress=fail)
    assert failed.value.code == 5002
    assert files_below(tmp_path) == []
    with pytest.raises(GateError, match="cannot write the backup"):
        backup(made.db, tmp_path / "missing" / "b.db")


def test_progress_reaches_the_whole(made: Made, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    backup(made.db, tmp_path / "b.db", progress=lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1] > 0


async def test_backups_made_while_others_write_verify_without_a_tail(tmp_path: Path) -> None:
    async with gate_at(tmp_path / "a.db") as gate:

        async def write() -> None:
            for _ in range(30):
                await gate.call("echo", text="x")

        writers = asyncio.gather(*(write() for _ in range(8)))
        number = 0
        while not writers.done():
            number += 1
            await asyncio.to_thread(backup, tmp_path / "a.db", tmp_path / f"b{number}.db")
        await writers
    reports = [verify(tmp_path / f"b{made}.db") for made in range(1, number + 1)]
    assert number > 1
    assert [(report.ok, report.unanchored) for report in reports] == [(True, {})] * number


async def test_a_backup_can_be_used_as_a_ledger(made: Made, tmp_path: Path) -> None:
    backup(made.db, tmp_path / "b.db")
    async with gate_at(tmp_path / "b.db") as gate:
        assert (await gate.call("count.up", by=1)).state_version == 5
    assert verify(tmp_path / "b.db").ok
    with closing(open_reader(made.db)) as original:
        assert show(original, "default").version == 4


def test_the_lock_and_instance_files_of_the_original_are_not_copied(made: Made, tmp_path: Path) -> None:
    backup(made.db, tmp_path / "b.db")
    assert sorted(path.name for path in LedgerFiles(tmp_path / "b.db").directory.iterdir()) == [
        "anchor.key",
        "secret.key",
    ]

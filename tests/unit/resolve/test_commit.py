"""Changes to many files as one transaction: what is read from a layer, whose the files are, and what comes back."""

from __future__ import annotations

import os
import socket
import stat
import struct
from pathlib import Path

import pytest

from agent_gate.model.errors import GateError
from agent_gate.resolve.commit import journal, steps
from agent_gate.resolve.commit.folders import Folders
from agent_gate.resolve.commit.layer import Bounds, Found, read_layers
from agent_gate.resolve.commit.recovery import End, Recovered, recover
from agent_gate.resolve.commit.transaction import Transaction
from agent_gate.resolve.own_watch import OwnWatch

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away or make devices")
SOMEBODY = 12_345


@pytest.fixture
def place(tmp_path: Path) -> Path:
    place = tmp_path.resolve() / "place"
    place.mkdir()
    (place.parent / "layer").mkdir()
    return place


def read(place: Path, started_ns: int = 1 << 70) -> Found:
    layer = str(place.parent / "layer")
    return read_layers([(str(place), layer)], lambda _: False, Bounds(1_000, 1 << 30), started_ns, OwnWatch())


def transaction(place: Path, call_id: str = "call") -> Transaction:
    found = read(place)
    assert found.problem is None
    return Transaction(call_id, found.changes, str(place.parent / f"{call_id}.json"))


def committed(place: Path) -> None:
    one = transaction(place)
    one.stage()
    one.commit()
    one.tidy()
    assert sorted(os.listdir(place.parent)) == ["layer", "place"]


def obstacles(place: Path) -> dict[str, str]:
    return {os.path.relpath(change.path, place): change.obstacle for change in read(place).changes}


def test_what_no_policy_lets_pass_is_told_for_each_path(place: Path) -> None:
    layer = place.parent / "layer"
    (layer / "plain").write_text("x")
    (layer / "setuid").write_text("x")
    (layer / "setuid").chmod(0o4755)
    (layer / "one").write_text("x")
    os.link(layer / "one", layer / "two")
    os.mkfifo(layer / "pipe")
    here = os.getcwd()
    with socket.socket(socket.AF_UNIX) as bound:
        os.chdir(layer)  # a socket's path must be short
        try:
            bound.bind("socket")
        finally:
            os.chdir(here)
    assert obstacles(place) == {
        "one": "has several names (hard links)",
        "pipe": "is a named pipe",
        "plain": "",
        "setuid": "has a set-uid or set-gid bit",
        "socket": "is a socket",
        "two": "has several names (hard links)",
    }


@AS_ROOT
def test_devices_and_capabilities_are_obstacles_and_whiteouts_are_removals(place: Path) -> None:
    layer = place.parent / "layer"
    (place / "gone").write_text("x")
    os.mknod(layer / "gone", stat.S_IFCHR, 0)
    os.mknod(layer / "null", stat.S_IFCHR, os.makedev(1, 3))
    (layer / "capable").write_text("x")
    os.setxattr(layer / "capable", "security.capability", struct.pack("<IIIII", 0x02000001, 1 << 10, 0, 0, 0))
    assert obstacles(place) == {"capable": "has capabilities", "gone": "", "null": "is a device"}
    assert [change.word for change in read(place).changes if change.path.endswith("/gone")] == ["removed"]


@AS_ROOT
def test_a_changed_file_keeps_its_owner_and_a_new_one_is_its_directory_s(place: Path) -> None:
    (place / "changed").write_text("old")
    os.chown(place / "changed", SOMEBODY, SOMEBODY)
    (place / "changed").chmod(0o640)
    (place / "team").mkdir()
    os.chown(place / "team", -1, SOMEBODY)
    (place / "team").chmod(0o2775)
    layer = place.parent / "layer"
    (layer / "changed").write_text("new")
    (layer / "changed").chmod(0o640)
    (layer / "team" / "sub").mkdir(parents=True)
    (layer / "team").chmod(0o2775)
    (layer / "team" / "sub").chmod(0o2755)
    (layer / "team" / "sub" / "added").write_text("new")
    committed(place)
    changed = (place / "changed").stat()
    assert (changed.st_uid, changed.st_gid, changed.st_mode & 0o7777) == (SOMEBODY, SOMEBODY, 0o640)
    assert (place / "team" / "sub" / "added").stat().st_gid == SOMEBODY
    assert (place / "team" / "sub").stat().st_mode & 0o7777 == 0o2755


def test_a_directory_s_default_list_of_access_says_who_may_use_a_new_file(place: Path) -> None:
    # version 2, then user::rwx, user:12345:rwx, group::r-x, mask::rwx, other::---
    entries = [(0x01, 7, -1), (0x02, 7, SOMEBODY), (0x04, 5, -1), (0x10, 7, -1), (0x20, 0, -1)]
    packed = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
    try:
        os.setxattr(place, "system.posix_acl_default", packed)
    except OSError:
        pytest.skip("no lists of access here")
    (place.parent / "layer" / "added").write_text("new")
    committed(place)
    assert struct.pack("<HHi", 0x02, 7, SOMEBODY) in os.getxattr(place / "added", "system.posix_acl_access")


def test_times_and_attributes_come_along(place: Path) -> None:
    layer = place.parent / "layer"
    (layer / "made").write_text("x")
    os.setxattr(layer / "made", "user.tag", b"v")
    os.utime(layer / "made", ns=(1, 1_000_000_000))
    committed(place)
    assert (os.getxattr(place / "made", "user.tag"), (place / "made").stat().st_mtime_ns) == (b"v", 1_000_000_000)


def test_a_path_that_changed_after_staging_takes_all_back(place: Path) -> None:
    for name in ("a", "b"):
        (place / name).write_text("old")
        (place.parent / "layer" / name).write_text("new")
    one = transaction(place)
    one.stage()
    (place / "b").write_text("somebody else's")
    with pytest.raises(GateError) as failed:
        one.commit()
    assert failed.value.code == 2008
    assert {path.name: path.read_text() for path in place.iterdir()} == {"a": "old", "b": "somebody else's"}


def half_way(place: Path) -> tuple[Transaction, bytes]:
    """Two files to be changed, of which the first has been."""
    for name in ("a", "b"):
        (place / name).write_text("old")
        (place.parent / "layer" / name).write_text("new")
    one = transaction(place)
    one.stage()
    told = journal.encode(one.units, read(place).changes)
    with Folders() as folders:
        steps.make(one.units[0], folders)
    return one, told


def contents(place: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in place.iterdir()}


def test_what_was_left_half_way_is_finished_and_a_second_time_changes_nothing(place: Path) -> None:
    _, told = half_way(place)
    for _ in range(2):
        assert recover(told) == Recovered(End.FINISHED)
        assert contents(place) == {"a": "new", "b": "new"}


def test_where_a_step_cannot_be_made_any_more_all_is_taken_back(place: Path) -> None:
    one, told = half_way(place)
    (place / one.units[1].name).unlink()
    for _ in range(2):
        assert recover(told).end is End.ROLLED_BACK
        assert contents(place) == {"a": "old", "b": "old"}


def test_a_path_that_somebody_replaced_meanwhile_is_left_alone_and_told(place: Path) -> None:
    _, told = half_way(place)
    (place / "mine").write_text("mine")
    (place / "mine").rename(place / "a")
    assert recover(told) == Recovered(End.IN_DOUBT, (str(place / "a"),))
    assert contents(place) == {"a": "mine", "b": "new"}


def test_a_path_that_somebody_changed_before_its_step_takes_the_others_back(place: Path) -> None:
    _, told = half_way(place)
    (place / "b").write_text("mine")
    assert recover(told) == Recovered(End.ROLLED_BACK)
    assert contents(place) == {"a": "old", "b": "mine"}

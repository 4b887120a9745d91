"""A real disk without room: a small file system of our own, in a mount namespace that nobody else sees."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.faults.nursery import Nursery

SMALL_DISK = 'mount -t tmpfs -o size=6m none "$0" && head -c 1500000 /dev/zero > "$0/ballast" && exec "$@"'


def namespaces_are_to_be_had() -> bool:
    unshare = shutil.which("unshare")
    return (
        os.geteuid() == 0
        and unshare is not None
        and subprocess.run([unshare, "-m", "true"], check=False, capture_output=True).returncode == 0
    )


@pytest.mark.serial
@pytest.mark.skipif(not namespaces_are_to_be_had(), reason="a private mount needs root and namespaces")
def test_a_full_disk_refuses_calls_without_harm_and_room_mends_it(tmp_path: Path) -> None:
    db, acts, ballast = str(tmp_path / "disk" / "a.db"), str(tmp_path / "acts"), str(tmp_path / "disk" / "ballast")
    (tmp_path / "disk").mkdir()
    with Nursery(wrap=["unshare", "-m", "sh", "-c", SMALL_DISK, str(tmp_path / "disk")]) as nursery:
        code, told = nursery.start("until_full", db=db, acts=acts, ballast=ballast).wait()
        outcomes = [message["outcome"] for message in told if "outcome" in message]
        instances = [message["instance"] for message in told if "instance" in message]
        nursery.run("create", db=db)
        recorded = {outcome["call_id"]: outcome for outcome in outcomes}
        problems = nursery.run("examine", db=db, acts=acts, outcomes=recorded, dead=instances)
    *filling, refused, after_append, after_add = outcomes
    full = [message["full"] for message in told if "full" in message]
    assert code == 0
    assert (len(filling) > 5, {outcome["status"] for outcome in filling}) == (True, {"success"})
    assert (refused["status"], refused["code"]) in {("error", 5002), ("unknown", 5002)}
    assert full == [[["error", 5002]]]
    assert [after_append["status"], after_add["status"]] == ["success", "success"]
    assert problems == [[]]

"""Bounds on processes where resource limits do not hold: where new control groups can be made."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent_gate.sandbox import pids
from agent_gate.sandbox.pids import ProcessBound, place_for_bounds


def proc(folder: Path, cgroup: str, *mounts: str) -> str:
    """What a process is told of itself."""
    folder.mkdir()
    (folder / "cgroup").write_text(cgroup)
    (folder / "mounts").write_text("".join(f"x {mount} rw 0 0\n".replace("rw", "rw,pids") for mount in mounts))
    return str(folder)


def bases(proc_dir: str) -> list[Path]:
    return list(pids._bases(Path(proc_dir)))


def test_the_old_hierarchy_is_used_below_the_processs_own_group(tmp_path: Path) -> None:
    told = proc(tmp_path / "p", "8:pids:/box\n4:memory:/other\n0::/\n", "/cg/pids cgroup")
    assert bases(told) == [Path("/cg/pids/box")]


def test_in_the_unified_hierarchy_the_nearest_group_that_passes_the_bound_on_is_used(tmp_path: Path) -> None:
    (tmp_path / "cg" / "a" / "b").mkdir(parents=True)
    (tmp_path / "cg" / "cgroup.subtree_control").write_text("cpu pids\n")
    (tmp_path / "cg" / "a" / "cgroup.subtree_control").write_text("cpu\n")
    told = proc(tmp_path / "p", "0::/a/b\n", f"{tmp_path}/cg cgroup2")
    assert bases(told) == [tmp_path / "cg"]


def test_a_machine_without_control_groups_has_no_place(tmp_path: Path) -> None:
    assert bases(proc(tmp_path / "p", "", "/ ext4")) == []


def test_a_bound_is_a_group_with_its_number_and_its_processes(tmp_path: Path) -> None:
    bound = ProcessBound(tmp_path, 7)
    (group,) = tmp_path.iterdir()
    bound.add(123)
    assert {file.name: file.read_text() for file in group.iterdir()} == {"pids.max": "7", "cgroup.procs": "123"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root needs one")
def test_an_ordinary_user_needs_none() -> None:
    assert place_for_bounds() is None


@pytest.mark.skipif(place_for_bounds() is None, reason="no control group can be made here")
def test_a_real_bound_goes_when_it_is_closed() -> None:
    base = place_for_bounds()
    assert base is not None
    own = f"agent-gate-{os.getpid()}-*"
    before = set(base.glob(own))
    bound = ProcessBound(base, 3)
    (group,) = set(base.glob(own)) - before
    assert (group / "pids.max").read_text().strip() == "3"
    bound.close()
    assert not group.exists()

"""The files of a simulation: whatever its steps do, they are as if the steps had been done to the disk itself."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_gate.model.errors import GateError, ToolError
from agent_gate.resolve.commit.change import Change
from agent_gate.resolve.commit.node import Node
from agent_gate.resolve.copied_paths import CopiedPaths
from agent_gate.resolve.copies import Copies
from agent_gate.resolve.paths import PathResolver
from agent_gate.sandbox.command import Access, Place
from agent_gate.services.shell.copied_view import over_copies

NAMES = ["a", "b", "c"]
PATHS = [*NAMES, *(f"{one}/{two}" for one in NAMES for two in NAMES), "a/b/c", "b/c/a"]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["write", "file", "directory", "link", "remove"]), st.sampled_from(PATHS), st.integers(0, 9)
    ),
    max_size=12,
)


@pytest.fixture(scope="module", autouse=True)
def _can_mark() -> None:
    with tempfile.TemporaryDirectory() as folder:
        try:
            os.setxattr(folder, "user.overlay.opaque", b"y")
            os.mknod(f"{folder}/gone", stat.S_IFCHR, os.makedev(0, 0))
        except OSError:
            pytest.skip("this file system can be no layer")


class Both:
    """The same steps, done to copies over one tree and for good to another that began alike."""

    def __init__(self, folder: str) -> None:
        self.disk, self.real, self._made = f"{folder}/disk", f"{folder}/real", f"{folder}/made"
        for tree in (self.disk, self.real):
            os.makedirs(f"{tree}/a/b")
            os.makedirs(f"{tree}/b")
            for name in ("a/b/c", "a/a", "b/a", "c"):
                Path(tree, name).write_text(f"old {name}")
        self.copies = Copies()
        self.copies.open(folder)

    def do(self, kind: str, name: str, number: int) -> None:
        real, path = f"{self.real}/{name}", f"{self.disk}/{name}"
        if not os.path.isdir(os.path.dirname(real)) or os.path.islink(os.path.dirname(real)):
            return
        if kind == "write" and not os.path.isdir(real) and not os.path.islink(real):
            Path(real).write_text(f"new {number}")
            self.copies.write(path, f"new {number}".encode())
        elif kind == "remove" and os.path.lexists(real):
            _remove(real)
            self.copies.apply([Change(path, Node("file", 0), None)])
        elif kind not in {"write", "remove"} and not os.path.isdir(real):
            self._replace(kind, real, path, number)

    def _replace(self, kind: str, real: str, path: str, number: int) -> None:
        for place in (real, self._made):
            if os.path.lexists(place):
                _remove(place)
            if kind == "directory":
                os.mkdir(place)
            elif kind == "link":
                os.symlink(f"../{NAMES[number % 3]}", place)
            else:
                Path(place).write_text(f"file {number}")
        mode = stat.S_IMODE(os.lstat(self._made).st_mode)
        self.copies.apply([Change(path, None, Node(kind, mode), source="" if kind == "directory" else self._made)])
        if os.path.isdir(self._made) and not os.path.islink(self._made):
            _remove(self._made)


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)


def as_it_is(folder: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path in Path(folder).rglob("*"):
        content = os.readlink(path) if path.is_symlink() else path.read_text() if path.is_file() else None
        found[str(path.relative_to(folder))] = content
    return found


def as_copied(copies: Copies, folder: str, top: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in copies.names(folder):
        path = f"{folder}/{name}"
        host = copies.host(path)
        assert host is not None
        if os.path.islink(host):
            found[path.removeprefix(f"{top}/")] = os.readlink(host)
        elif os.path.isdir(host):
            found[path.removeprefix(f"{top}/")] = None
            found |= as_copied(copies, path, top)
        else:
            found[path.removeprefix(f"{top}/")] = Path(host).read_text()
    return found


def resolved(resolver: PathResolver, top: str, name: str) -> tuple[Any, ...]:
    try:
        target = resolver.resolve(f"{top}/{name}")
    except GateError as error:
        return (error.problem.code,)
    target.release()
    if target.obstacle:
        return target.kind, "obstacle"
    return os.path.relpath(target.path, top), target.kind, target.rest


@given(STEPS)
@settings(deadline=None)
def test_copies_are_what_the_disk_would_be_and_the_disk_stays(steps: list[tuple[str, str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        both = Both(os.path.realpath(folder))
        before = as_it_is(both.disk)
        for step in steps:
            both.do(*step)
        assert as_copied(both.copies, both.disk, both.disk) == as_it_is(both.real)
        assert as_it_is(both.disk) == before
        simulated, live = CopiedPaths(PathResolver(both.disk), both.copies), PathResolver(both.real)
        for name in PATHS:
            assert resolved(simulated, both.disk, name) == resolved(live, both.real, name), name
        both.copies.close()
        assert sorted(os.listdir(folder)) in (["disk", "real"], ["disk", "made", "real"])


def test_what_cannot_be_looked_at_for_its_number_is_refused_and_not_shown_unjudged(tmp_path: Path) -> None:
    copies = Copies(entries_max=40)
    copies.open(str(tmp_path))
    for number in range(40):
        copies.write(f"/simulated/{number}", b"")
    with pytest.raises(ToolError) as refused:
        list(copies.entries())
    assert refused.value.problem.code == 2006
    copies.close()


def test_a_place_that_a_simulation_made_a_link_is_not_shown_as_what_the_link_leads_to(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        both = Both(os.path.realpath(folder))
        for step in (("remove", "b", 0), ("link", "b", 0)):
            both.do(*step)
        assert os.path.islink(both.copies.host(f"{both.disk}/b") or "")
        places = [Place(f"{both.disk}/{name}", Access.READ, is_directory=True) for name in ("a", "b")]
        shown = over_copies(places, both.copies, lambda _: Access.NONE, whole=True)
        assert [place.path for place in shown] == [f"{both.disk}/a"]
        both.copies.close()

"""Trees are removed whole, by an ordinary user too: whatever their modes forbid, and however deep they are."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent_gate.resolve.trees import remove_tree

NOBODY = 65_534
DEEPER_THAN_A_PATH = 3_000


@contextmanager
def as_an_ordinary_user(*owned: Path) -> Iterator[None]:
    """Root is forbidden nothing; anybody else is ordinary already."""
    if os.geteuid() != 0:
        yield
        return
    for path in owned:
        for found in (path, *path.rglob("*")):
            os.chown(found, NOBODY, -1, follow_symlinks=False)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def around() -> Iterator[Path]:
    """A directory that an ordinary user can reach."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        yield Path(folder)


def test_directories_that_forbid_everything_are_removed(around: Path) -> None:
    tree = around / "tree"
    (tree / "closed" / "below").mkdir(parents=True)
    (tree / "closed" / "below" / "file").touch()
    (tree / "read-only").mkdir()
    (tree / "read-only" / "file").touch()
    with as_an_ordinary_user(tree):
        (tree / "closed" / "below").chmod(0)
        (tree / "closed").chmod(0)
        (tree / "read-only").chmod(0o555)
        remove_tree(str(tree))
    assert os.listdir(around) == []


def test_a_tree_deeper_than_any_path_is_long_is_removed(around: Path) -> None:
    here = os.open(around, os.O_RDONLY)
    for _ in range(DEEPER_THAN_A_PATH):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)
    remove_tree(f"{around}/d")
    assert os.listdir(around) == []


def test_a_link_goes_and_what_it_leads_to_stays(around: Path) -> None:
    (around / "kept").mkdir()
    (around / "kept" / "file").touch()
    (around / "tree").mkdir()
    (around / "tree" / "link").symlink_to("../kept")
    (around / "link").symlink_to("kept")
    remove_tree(f"{around}/tree")
    remove_tree(f"{around}/link")
    assert sorted(os.listdir(around)) == ["kept"]
    assert os.listdir(around / "kept") == ["file"]


def test_what_is_not_there_is_said(around: Path) -> None:
    with pytest.raises(FileNotFoundError):
        remove_tree(f"{around}/none")

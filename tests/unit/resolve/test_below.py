"""What lies below directories, as far as it is treated otherwise than what surrounds it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_gate.model.errors import ToolError
from agent_gate.resolve.below import Below


def tree(root: Path, *files: str) -> Path:
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")
    return root


def levels(root: Path, rule: Callable[[str], int]) -> Callable[[str], int]:
    return lambda path: rule(path.removeprefix(str(root)))


def seen(root: Path, rule: Callable[[str], int], *starts: str) -> set[tuple[str, int, bool]]:
    found = Below(levels(root, rule), 0).look([f"{root}{start}" for start in starts or ("",)])
    assert len({item.path for item in found}) == len(found)
    return {(item.path.removeprefix(str(root)), item.level, item.is_directory) for item in found}


def test_a_directory_that_is_the_same_throughout_is_one_thing(tmp_path: Path) -> None:
    assert seen(tree(tmp_path, "a", "b/c"), lambda _: 1) == {("", 1, True)}


def test_what_differs_is_named_and_not_looked_into_where_it_is_nothing(tmp_path: Path) -> None:
    tree(tmp_path, ".git/config", "a/.env", "a/b", "out/x")
    rule = {"/.git": 0, "/a/.env": 0, "/out": 2, "/out/x": 2}
    assert seen(tmp_path, lambda path: rule.get(path, 1)) == {
        ("", 1, True),
        ("/.git", 0, True),
        ("/a/.env", 0, False),
        ("/out", 2, True),
    }


def test_below_a_start_that_is_nothing_single_things_are_found(tmp_path: Path) -> None:
    tree(tmp_path, "a.md", "b.txt", "deep/c.md")
    assert seen(tmp_path, lambda path: int(path.endswith(".md"))) == {("/a.md", 1, False), ("/deep/c.md", 1, False)}


def test_links_are_not_followed_and_not_named(tmp_path: Path) -> None:
    tree(tmp_path, "a/x")
    (tmp_path / "link").symlink_to("a")
    assert seen(tmp_path, lambda path: int(not path.startswith("/link"))) == {("", 1, True)}


def test_a_start_below_another_is_not_looked_at_twice(tmp_path: Path) -> None:
    tree(tmp_path, "a/x", "ab/y")
    assert seen(tmp_path, lambda _: 1, "/a", "/a/x", "/ab", "/a") == {("/a", 1, True), ("/ab", 1, True)}


def test_outer_things_come_first(tmp_path: Path) -> None:
    tree(tmp_path, "a/b/c")
    found = Below(levels(tmp_path, lambda path: 1 + path.count("/") % 2), 0).look([str(tmp_path)])
    assert [item.path.count("/") for item in found] == sorted(item.path.count("/") for item in found)


def test_what_cannot_differ_is_not_looked_into(tmp_path: Path) -> None:
    tree(tmp_path, "big/a", "big/b", "small/x")
    rule = levels(tmp_path, lambda path: int(not path.endswith(("/a", "/x"))))
    found = Below(rule, 0, lambda folder: not folder.endswith("/big")).look([str(tmp_path)])
    assert [item.path.removeprefix(str(tmp_path)) for item in found] == ["", "/small/x"]


def test_what_is_near_is_looked_at_and_the_rest_is_nothing(tmp_path: Path) -> None:
    tree(tmp_path, "a", "b/c", "b/d/e", "f/.g")
    rule = levels(tmp_path, lambda path: int(not path.endswith("/.g")))
    found = Below(rule, 0, near_max=4).look([str(tmp_path)], near=True)
    assert [(item.path.removeprefix(str(tmp_path)), item.level) for item in found[:1]] == [("", 1)]
    assert {(item.path.removeprefix(str(tmp_path)), item.level) for item in found[1:]} <= {
        ("/b/d", 0),
        ("/b", 0),
        ("/f", 0),
        ("/f/.g", 0),
    }
    assert not any(item.level for item in found[1:])
    assert len(Below(rule, 0, near_max=100).look([str(tmp_path)], near=True)) == 2


def test_both_bounds_hold(tmp_path: Path) -> None:
    tree(tmp_path, *(f"f{number}" for number in range(20)))
    with pytest.raises(ToolError, match="would have to be looked at"):
        Below(lambda _: 1, 0, entries_max=19).look([str(tmp_path)])
    with pytest.raises(ToolError, match="treated otherwise"):
        Below(lambda path: int(path == str(tmp_path)), 0, places_max=19).look([str(tmp_path)])


def test_pipes_and_sockets_are_nothing_whatever_their_names(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").touch()
    found = Below(lambda _: 1, 0).look([str(tmp_path)])
    assert found == [(str(tmp_path), 1, True), (f"{tmp_path}/pipe", 0, False)]

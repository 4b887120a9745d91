"""What lies below directories that may not be shown: the first of it is found, whatever leads there."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_gate.model.errors import ToolError
from agent_gate.resolve.unshown import first_unshown


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path.resolve() / "root"
    for name in ("a/b/c.txt", "d/e.txt"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")
    (root.parent / "outside").mkdir()
    (root.parent / "outside.txt").write_text("x")
    return root


def found(root: Path, *folders: str, most: int = 1_000) -> str:
    """Names with a `!` may not be shown, nor what lies outside, nor a file with other names that holds a `!`."""

    def is_shown(path: str, has_other_names: bool) -> bool:
        is_ours = has_other_names and Path(path).is_file() and "!" in Path(path).read_text()
        return "!" not in path and path.startswith(f"{root}/") and not is_ours

    return first_unshown([f"{root}/{folder}" for folder in folders], is_shown, most).removeprefix(f"{root}/")


def test_where_all_may_be_shown_nothing_is_found(root: Path) -> None:
    assert found(root, "a", "d") == ""


def test_the_first_by_name_is_found_at_any_depth(root: Path) -> None:
    (root / "a" / "b" / "x!").write_text("x")
    (root / "a" / "b" / "w!").write_text("x")
    (root / "d" / "!").mkdir()
    assert found(root, "d", "a") == "a/b/w!"
    assert found(root, "d") == "d/!"


@pytest.mark.parametrize(
    ("target", "may"),
    [("../outside.txt", False), ("../outside", False), ("b/c.txt", True), ("../nothing", False), ("b", True)],
)
def test_a_link_must_lead_to_what_may_be_shown(target: str, may: bool, root: Path) -> None:
    where = target if not target.startswith("..") else f"../{target}"
    (root / "a" / "link").symlink_to(where)
    assert found(root, "a") == ("" if may else "a/link")


def test_a_link_to_a_directory_that_is_not_looked_through_is_not_followed(root: Path) -> None:
    (root / "a" / "link").symlink_to(root / "d")
    assert found(root, "a") == "a/link"
    assert found(root, "a", "d") == ""


def test_a_file_with_other_names_is_told_as_such(root: Path) -> None:
    (root / "a" / "kept").write_text("!")
    assert found(root, "a") == ""
    (root / "a" / "linked").hardlink_to(root / "a" / "kept")
    assert found(root, "a") == "a/kept"


def test_it_does_not_look_for_ever(root: Path) -> None:
    with pytest.raises(ToolError, match="more than 2 files up to") as refused:
        found(root, "a", "d", most=2)
    assert refused.value.code == 2006

"""Where a gate stands: links in patterns and in the names of its own files are followed once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent_gate.model.errors import ConfigError
from agent_gate.model.policy import Guards, PathGuard, Policy
from agent_gate.policy.guards.surroundings import Surroundings
from agent_gate.resolve.surroundings import look_around, real_directory, real_paths


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path.resolve()
    (root / "real/sub").mkdir(parents=True)
    (root / "link").symlink_to("real")
    return root


def policy(*, allow: tuple[str, ...] = (), deny: tuple[str, ...] = (), protected: tuple[str, ...] = ()) -> Policy:
    return Policy(guards=Guards({"fs.write": PathGuard(allow, deny)}), protected_paths=protected)


def test_only_fixed_parts_that_lead_through_links_are_noted(root: Path) -> None:
    lists = policy(allow=("./link/*.txt", "./real/**", "absent/**"), deny=("**/x", "link/sub"), protected=("./link",))
    assert look_around(lists, str(root)) == Surroundings(
        str(root),
        links={
            f"{root}/link": f"{root}/real",
            f"{root}/link/sub": f"{root}/real/sub",
        },
    )


def test_a_pattern_that_goes_up_from_a_link_means_what_the_system_means(root: Path) -> None:
    (root / "there").symlink_to("real/sub")
    assert look_around(policy(allow=("there/../**",)), str(root)).links == {f"{root}/there/..": f"{root}/real"}


def test_own_files_have_their_real_name_and_the_one_given(root: Path) -> None:
    (root / "real/policy.yaml").write_text("")
    assert real_paths([root / "link/policy.yaml", root / "real/policy.yaml"]) == (
        f"{root}/real/policy.yaml",
        f"{root}/link/policy.yaml",
    )


def test_real_names_are_those_of_the_system_however_links_lie(root: Path) -> None:
    (root / "real/up").symlink_to("..")
    (root / "real/sub/loop").symlink_to("loop")
    (root / "whole").symlink_to("/")
    (root / "real/file").symlink_to("sub/absent")
    names = ["link/up/link/file", "link/sub/loop/x", f"whole{root}/link", "absent/x", "link/absent/y", "link/../real"]
    paths = ["/", *(os.path.abspath(f"{root}/{name}") for name in names)]
    assert real_paths(paths) == tuple(dict.fromkeys((*map(os.path.realpath, paths), *paths)))


def test_a_working_directory_is_a_real_one(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert real_directory(root / "link") == f"{root}/real"
    monkeypatch.chdir(root / "link")
    assert real_directory(None) == f"{root}/real"
    with pytest.raises(ConfigError, match="is not a directory"):
        real_directory(root / "nope")

"""What a repository's own configuration would make git start or read."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_gate.bindings.repository import CONFIG_BYTES_MAX, named_programs


def repository(folder: Path, config: str) -> Path:
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "config").write_text(config)
    return folder


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ("[core]\n\tfsmonitor = /bin/x\n", ["core.fsmonitor"]),
        ("[CORE]\n FSMonitor=/bin/x", ["core.fsmonitor"]),
        ("[core] fsmonitor = /bin/x", ["core.fsmonitor"]),
        ('[core]\n fsmonitor = "/bin/x"', ["core.fsmonitor"]),
        ("[diff]\n external = x", ["diff.external"]),
        ('[diff "a b"]\n textconv = x\n command = y', ["diff.a b.textconv", "diff.a b.command"]),
        (
            '[filter "f"]\n clean = x\n smudge = y\n process = z',
            ["filter.f.clean", "filter.f.smudge", "filter.f.process"],
        ),
        ("[filter.f]\n clean = x", ["filter.f.clean"]),
        ("[include]\n path = ../x", ["include.path"]),
        ('[includeIf "gitdir:~/"]\n path = ../x', ["includeif.gitdir:~/.path"]),
        ("[core]\n fsmonitor = true\n pager = less\n hooksPath = .husky\n", []),
        ("[core]\n fsmonitor\n bare = false\n", []),
        ('[remote "origin"]\n url = x\n fetch = +refs/*\n[user]\n name = Anna = x\n', []),
        ("# [diff]\n; external = x\n[diff]\n # external = x\n", []),
        ("", []),
    ],
)
def test_settings_that_name_programs_or_other_files_are_found(config: str, named: list[str], tmp_path: Path) -> None:
    assert named_programs(str(repository(tmp_path, config))) == named


def test_the_repository_is_sought_upwards(tmp_path: Path) -> None:
    repository(tmp_path, "[diff]\n external = x")
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    assert named_programs(str(deep)) == ["diff.external"]


def test_the_nearest_repository_counts(tmp_path: Path) -> None:
    repository(tmp_path, "[diff]\n external = x")
    assert named_programs(str(repository(tmp_path / "inner", ""))) == []


def test_a_worktree_and_what_it_shares_are_looked_at(tmp_path: Path) -> None:
    main = repository(tmp_path / "main", "[diff]\n external = x")
    own = main / ".git" / "worktrees" / "w"
    own.mkdir(parents=True)
    (own / "commondir").write_text("../..\n")
    (own / "config.worktree").write_text("[core]\n fsmonitor = y")
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / ".git").write_text(f"gitdir: {own}\n")
    assert named_programs(str(tree)) == ["core.fsmonitor", "diff.external"]


def test_a_bare_repository_is_one_too(tmp_path: Path) -> None:
    (tmp_path / "objects").mkdir()
    (tmp_path / "HEAD").write_text("ref: refs/heads/main\n")
    (tmp_path / "config").write_text("[core]\n fsmonitor = x")
    assert named_programs(str(tmp_path)) == ["core.fsmonitor"]


def test_a_configuration_that_is_too_long_to_be_read_is_suspect(tmp_path: Path) -> None:
    repository(tmp_path, "#" * (CONFIG_BYTES_MAX + 1))
    assert named_programs(str(tmp_path)) == ["config, which is too long to be read"]


def test_where_there_is_no_repository_nothing_is_named(tmp_path: Path) -> None:
    assert named_programs(str(tmp_path)) == []

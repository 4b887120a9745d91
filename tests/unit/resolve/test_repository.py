"""Which repository a directory belongs to, and which of its settings are not known to be harmless."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from agent_gate.resolve.git_config import CONFIG_BYTES_MAX
from agent_gate.resolve.repository import (
    NoRepository,
    Repository,
    find_repository,
    refused_settings,
    tells_credentials,
)


def git(folder: Path, *words: str) -> None:
    who = ["-c", "user.name=Anna", "-c", "user.email=anna@example.test"]
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


def repository(folder: Path, config: str | bytes = "") -> Path:
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / ".git" / "config").write_bytes(config.encode() if isinstance(config, str) else config)
    return folder


def found_in(folder: Path) -> Repository:
    found = find_repository(str(folder))
    assert found is not None
    return found


def named(folder: Path) -> list[str]:
    return refused_settings(found_in(folder))


@pytest.mark.parametrize(
    ("config", "expected"),
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
        ("[core]\n alternateRefsCommand = x\n sshCommand = y", ["core.alternaterefscommand", "core.sshcommand"]),
        ("[gpg]\n program = x", ["gpg.program"]),
        ('[gpg "ssh"]\n program = x', ["gpg.ssh.program"]),
        ("[core]\n worktree = /\n attributesFile = x", ["core.worktree", "core.attributesfile"]),
        ("[core]\n excludesFile = x\n[mailmap]\n file = x", ["core.excludesfile", "mailmap.file"]),
        ("[blame]\n ignoreRevsFile = x\n[alias]\n log = !x", ["blame.ignorerevsfile", "alias.log"]),
        ("[format]\n pretty = %G?\n[log]\n showSignature = true", ["format.pretty", "log.showsignature"]),
        ("[pager]\n log = x\n[gc]\n recentObjectsHook = x", ["pager.log", "gc.recentobjectshook"]),
        ("[what]\n nobody = knows", ["what.nobody"]),
    ],
)
def test_a_setting_that_is_not_known_to_be_harmless_is_named(config: str, expected: list[str], tmp_path: Path) -> None:
    assert named(repository(tmp_path, config)) == expected


@pytest.mark.parametrize(
    "config",
    [
        "[core]\n fsmonitor = true\n pager = less\n hooksPath = .husky\n",
        "[core]\n fsmonitor\n bare = false\n",
        '[remote "origin"]\n url = x\n fetch = +refs/*\n[user]\n name = Anna = x\n',
        "# [diff]\n; external = x\n[diff]\n # external = x\n",
        '[core] ; a comment\n\tbare = false # another\r\n[branch "a#b"]\r\n\tremote = "o # no"\r\n',
        '[branch "main"]\n vscode-merge-base = origin/main\n[lfs]\n repositoryformatversion = 0',
        '[http "https://github.com/"]\n extraheader = AUTHORIZATION: basic x',
        "",
    ],
)
def test_ordinary_settings_are_let_be(config: str, tmp_path: Path) -> None:
    assert named(repository(tmp_path, config)) == []


@pytest.mark.parametrize(
    "config",
    [
        b"\xef\xbb\xbf[diff]\n external = x",
        b"[core]\n bare = \\\nfalse\n",
        b"[core]\n bare = false \\\n[diff]\n external = x",
        b"# a comment \\\n[core]\n bare = false",
        b"[core]\n bare = false\r external = x\n",
        b"[core]\n bare = \0false\n",
        b'[core]\n bare = "false\n[diff]"\n external = x\n',
        b"[core]\n bare = false \\q\n",
        b"[ core]\n bare = false",
        b'[core "x]\n bare = false',
        b"bare = false\n",
        b"[core]\n = x\n",
        b"[core]\n bare false\n",
        b"[core]\n 1x = 2\n",
        b"[core\n]\n",
        b"[core]\n\x0bbare = false\n",
    ],
)
def test_what_git_might_read_otherwise_is_not_read_at_all(config: bytes, tmp_path: Path) -> None:
    [why] = named(repository(tmp_path, config))
    assert why.startswith("config: ")


def test_a_configuration_that_is_too_long_to_be_read_is_suspect(tmp_path: Path) -> None:
    assert named(repository(tmp_path, "#" * (CONFIG_BYTES_MAX + 1))) == ["config: it is too long to be read"]


def test_the_repository_is_sought_upwards(tmp_path: Path) -> None:
    top = repository(tmp_path)
    deep = top / "a" / "b"
    deep.mkdir(parents=True)
    assert found_in(deep) == Repository(str(top), (str(top / ".git"),))


def test_the_nearest_repository_counts(tmp_path: Path) -> None:
    repository(tmp_path, "[diff]\n external = x")
    assert named(repository(tmp_path / "inner")) == []


def test_a_worktree_and_what_it_shares_are_looked_at(tmp_path: Path) -> None:
    main = repository(tmp_path / "main")
    git(main, "commit", "-q", "--allow-empty", "-m", "first")
    git(main, "worktree", "add", "-q", "../tree")
    own = main / ".git" / "worktrees" / "tree"
    (own / "config.worktree").write_text("[core]\n fsmonitor = y")
    (main / ".git" / "config").write_text("[diff]\n external = x")
    tree = found_in(tmp_path / "tree")
    assert tree.directories == (str(own), str(main / ".git"))
    assert tree.tops == (str(main.parent / "tree"), str(main))
    assert refused_settings(tree) == ["core.fsmonitor", "diff.external"]


@pytest.mark.parametrize("how", ["bare", "link", "empty directory", "file that leads nowhere", "strange HEAD"])
def test_what_is_no_plain_repository_is_refused(how: str, tmp_path: Path) -> None:
    work = tmp_path / "work"
    match how:
        case "bare":
            work.mkdir()
            git(work, "init", "-q", "--bare")
        case "link":
            (repository(work) / ".git").rename(tmp_path / "elsewhere")
            (work / ".git").symlink_to("../elsewhere")
        case "empty directory":
            (work / ".git").mkdir(parents=True)
        case "file that leads nowhere":
            work.mkdir()
            (work / ".git").write_text("gitdir: ../.ssh\n")
        case _:
            (repository(work) / ".git" / "HEAD").write_text("PASSWORD\n")
    with pytest.raises(NoRepository):
        find_repository(str(work))


def test_where_there_is_no_repository_there_is_none(tmp_path: Path) -> None:
    assert find_repository(str(tmp_path)) is None


def test_objects_of_another_repository_are_noticed(tmp_path: Path) -> None:
    top = repository(tmp_path)
    assert not found_in(top).borrows()
    (top / ".git" / "objects" / "info" / "alternates").write_text("/elsewhere/objects\n")
    assert found_in(top).borrows()


@pytest.mark.parametrize(
    ("address", "tells"),
    [
        ("https://me:word@host/x", True),
        ("https://token@host/x", True),
        ("https://host/x@y", False),
        ("git@host:x", False),
    ],
)
def test_an_address_with_a_user_tells_perhaps_a_password(address: str, tells: bool, tmp_path: Path) -> None:
    assert tells_credentials(found_in(repository(tmp_path, f'[remote "o"]\n url = {address}\n'))) is tells


def test_a_submodule_that_names_its_own_work_tree_is_in_order(tmp_path: Path) -> None:
    top = repository(tmp_path, "[core]\n worktree = ../../x/..\n")
    assert named(top) == ["core.worktree"]
    (top / ".git" / "config").write_text("[core]\n worktree = ..\n")
    assert named(top) == []

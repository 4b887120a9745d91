"""What a command is shown, and what git tells of its history: nothing that `fs.read` would not."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent_gate import Gate, Outcome
from agent_gate.model.outcome import Status
from agent_gate.sandbox.choice import Choice
from tests.gates import a_gate, code_of, entries

CANARY = "CANARY"
PROGRAMS = ["ls", "cat", "diff", "strings", "git", "find", "grep", "stat"]
READ: dict[str, Any] = {"allow_paths": ["./**"], "deny_paths": ["./secrets", "**/*.pem"]}
WHO = ["-c", "user.name=Anna", "-c", "user.email=anna@example.test", "-c", "core.hooksPath=/dev/null"]

pytestmark = pytest.mark.skipif(asyncio.run(Choice().pick("auto")) is None, reason="this machine offers no sandbox")


def policy_of(**sections: Any) -> dict[str, Any]:
    shell = {"allow_executables": PROGRAMS, **sections.pop("shell", {})}
    return {"version": 1, "tools": {"shell.run": shell, "fs.read": {**READ, **sections}}}


@asynccontextmanager
async def gate_at(work: Path, policy: dict[str, Any] | None = None) -> AsyncIterator[Gate]:
    async with a_gate(work, policy or policy_of(), working_dir=work) as gate:
        yield gate


def git(work: Path, *words: str) -> str:
    done = subprocess.run(["git", *WHO, *words], cwd=work, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """No repository: an empty directory, notes, and files that nobody may see."""
    work = tmp_path.resolve() / "work"
    for folder in ("empty", "secrets", "sub/.deep"):
        (work / folder).mkdir(parents=True)
    (work / "notes").write_text("notes\n")
    for name in (".env", "secrets/key", "sub/.deep/key", "sub/server.pem"):
        (work / name).write_text(f"{CANARY}\n")
    return work


@pytest.fixture
def repository(plain: Path) -> Path:
    """Everything was committed, then changed, stashed and committed again."""
    (plain / ".gitignore").write_text("*.log\n")
    (plain / "noise.log").write_text("noise\n")
    git(plain, "init", "-q", "-b", "main")
    git(plain, "add", "-A")
    git(plain, "commit", "-q", "-m", "first")
    for name in ("notes", ".env", "secrets/key", "sub/server.pem"):
        with (plain / name).open("a") as file:
            file.write(f"{CANARY} again\n" if name != "notes" else "more\n")
    git(plain, "stash", "-q")
    (plain / "notes").write_text("second\n")
    (plain / ".env").write_text(f"{CANARY} second\n")
    git(plain, "commit", "-q", "-a", "-m", "second")
    git(plain, "tag", "blob-tag", "HEAD:.env")
    return plain


def told(outcome: Outcome) -> str:
    return json.dumps(outcome.to_json())


def data_of(outcome: Outcome) -> dict[str, Any]:
    assert outcome.status is Status.SUCCESS, outcome
    assert isinstance(outcome.data, dict)
    return outcome.data


@pytest.mark.parametrize(
    "command",
    [
        "diff -N notes .",
        "diff -N empty .",
        "diff -r -N empty .",
        "strings @.env .",
        "diff empty secrets/..",
        "git diff empty .",
        "git diff --no-index empty .",
        "git diff --no-index -- empty .",
        "git -C sub diff ../empty .",
    ],
)
async def test_no_directory_shows_what_may_not_be_read(command: str, plain: Path) -> None:
    async with gate_at(plain) as gate:
        assert CANARY not in told(await gate.call("shell.run", command=command))


async def test_what_was_left_out_is_counted(plain: Path, tmp_path: Path) -> None:
    """The hidden file, two directories with all that they hold, and one file that is denied by its name."""
    async with a_gate(tmp_path, policy_of(), working_dir=plain) as gate:
        data = data_of(await gate.call("shell.run", command="find . -name '*.pem' -size +0"))
        assert (data["stdout"], data["left_out"]) == ("", 4)
        assert "left_out" not in data_of(await gate.call("shell.run", command="cat notes"))


@pytest.mark.parametrize(
    ("command", "paths"),
    [
        ("git show HEAD", {".env"}),
        ("git diff HEAD~1 HEAD", {".env"}),
        ("git diff-tree -p HEAD", {".env"}),
        ("git show HEAD~1", {".env", ".gitignore", "secrets/key", "sub/.deep/key", "sub/server.pem"}),
        ("git show HEAD~1 -- sub", {"sub/.deep/key", "sub/server.pem"}),
        ("git log -p -n 1", {".env", ".gitignore", "secrets/key", "sub/.deep/key", "sub/server.pem"}),
        ("git log -p HEAD~1..HEAD", {".env"}),
        ("git -C sub grep CANARY HEAD", {".env", ".gitignore", "secrets/key", "sub/.deep/key", "sub/server.pem"}),
        ("git stash show -p", {".env", "secrets/key", "sub/server.pem"}),
        ("git show HEAD -- notes", set()),
        ("git log", set()),
    ],
)
async def test_what_git_was_kept_from_showing_is_counted(
    command: str, paths: set[str], repository: Path, tmp_path: Path
) -> None:
    async with a_gate(tmp_path, policy_of(), working_dir=repository) as gate:
        hidden = data_of(await gate.call("shell.run", command="git branch"))["left_out"]
        data = data_of(await gate.call("shell.run", command=command))
    assert data["left_out"] - hidden == len(paths)


async def test_another_name_of_a_file_of_the_gates_own_is_hidden_too(plain: Path) -> None:
    async with gate_at(plain) as gate:
        os.link(plain / "gate.db", plain / "copy")
        found = data_of(await gate.call("shell.run", command="grep -r -l SQLite ."))
        assert found["stdout"] == ""


async def test_nor_is_it_shown_where_it_could_be_written(plain: Path) -> None:
    policy = policy_of(shell={"allow_executables": ["sh"], "unchecked_executables": ["sh"]})
    policy["tools"]["fs.write"] = {"allow_paths": ["./**"]}
    async with gate_at(plain, policy) as gate:
        os.link(plain / "gate.db", plain / "copy")
        data = data_of(await gate.call("shell.run", argv=["sh", "-c", "cat copy; echo x >> copy"]))
        assert ("SQLite" in data["stdout"], data["return_code"] != 0) == (False, True)
        assert (plain / "copy").read_bytes()[-2:] != b"x\n"


async def test_a_directory_among_the_words_of_ls_is_no_walk_of_all_that_lies_below(plain: Path) -> None:
    """Far more than a view can hold lies below; what is near is listed all the same."""
    for number in range(60):
        folder = plain / "big" / str(number) / "deeper"
        folder.mkdir(parents=True)
        for other in range(100):
            (folder / f"{other}").touch()
    (plain / "big" / "59" / "deeper" / "7").write_text("far\n")
    async with gate_at(plain) as gate:
        assert "notes" in data_of(await gate.call("shell.run", command="ls"))["stdout"].split()
        both = data_of(await gate.call("shell.run", command="stat -c %s big/59/deeper/7 ."))
        assert both["stdout"].startswith("4\n")
        assert len(data_of(await gate.call("shell.run", command="ls . big/59/deeper"))["stdout"].split()) > 100


SHOWN_NOWHERE = [
    "git show HEAD:.env",
    "git show HEAD:./.env",
    "git show :.env",
    "git show :0:.env",
    "git show HEAD:secrets/key",
    "git show HEAD~1:sub/server.pem",
    "git show 'HEAD^{tree}:.env'",
    "git show HEAD:sub/../.env",
    "git show {blob}",
    "git show {tree}",
    "git show {tree}:.env",
    "git show blob-tag",
    "git show --all",
    "git show --tags",
    "git show HEAD",
    "git show HEAD -- .env",
    "git show HEAD .env",
    "git show HEAD -- ':(top).env'",
    "git show --full-diff HEAD -- notes",
    "git log -p",
    "git log -p --all",
    "git log -p -- .env",
    "git log -p --follow -- notes",
    "git log -L 1,1:.env",
    "git log -p -m --cc",
    "git log -p {blob}",
    "git log --check",
    "git -C sub log -p",
    "git --literal-pathspecs log -p",
    "git whatchanged -p",
    "git reflog -p",
    "git grep CANARY",
    "git grep CANARY HEAD",
    "git grep CANARY HEAD~1",
    "git grep CANARY {tree}",
    "git grep CANARY HEAD:secrets",
    "git grep --cached CANARY",
    "git stash show -p",
    "git stash show -p 0",
    "git stash list -p",
    "git blame .env",
    "git blame HEAD~1 .env",
    "git blame HEAD~1 -- secrets/key",
    "git blame --abbrev .env",
    "git annotate .env",
    "git diff HEAD~1",
    "git diff HEAD~1 HEAD",
    "git diff HEAD~1..HEAD",
    "git diff HEAD~1:secrets HEAD:secrets",
    "git diff {blob} HEAD:notes",
    "git diff {blob}",
    "git diff {tree}",
    "git diff empty .",
    "git diff /dev/null .env",
    "git diff /usr .",
    "git diff --no-index empty .",
    "git diff-tree -p HEAD",
    "git diff-tree -p -r --root {tree}",
    "git diff-index -p HEAD~1",
    "git diff-files -p",
    "git cat-file -p {blob}",
    "git cat-file blob {blob}",
    "git cat-file -p HEAD:.env",
    "git cat-file -p blob-tag",
    "git cat-file blob HEAD:.env",
    "git for-each-ref --format=%(raw)",
    "git tag --format=%(raw)",
    "git status -vv",
    "git check-ignore -v noise.log",
    "git ls-files --format=%(objectname)",
]


@pytest.mark.parametrize("chunk", range(2))
async def test_git_tells_nothing_of_what_may_not_be_read(chunk: int, repository: Path) -> None:
    names = {"{blob}": git(repository, "rev-parse", "HEAD:.env"), "{tree}": git(repository, "rev-parse", "HEAD^{tree}")}
    # Only the commit of today has lost them: history still holds all.
    git(repository, "rm", "-q", "--cached", "sub/server.pem")
    async with gate_at(repository) as gate:
        for command in SHOWN_NOWHERE[chunk::2]:
            for name, value in names.items():
                command = command.replace(name, value)  # noqa: PLW2901 -- the same command, filled in
            outcome = await gate.call("shell.run", command=command)
            given = told(outcome).replace("grep CANARY", "").replace("--cached CANARY", "").replace("eCANARY", "")
            assert CANARY not in given.replace('-e", "CANARY', ""), (command, outcome)


ORDINARY = [
    ("git log --format=%s", "second\nfirst\n"),
    ("git log --format=%s -1", "second\n"),
    ("git log --format=%s notes", "second\nfirst\n"),
    ("git log --format=%s --follow -- notes", "second\nfirst\n"),
    ("git log -n 1 --format= -p", "+second"),
    ("git log --format=%s -p HEAD~1..HEAD", "second\n"),
    ("git log --format=%s --stat -- '*otes'", " notes | 2 +-\n"),
    ("git show --format=%s HEAD~1", "+notes"),
    ("git show HEAD:notes", "second\n"),
    ("git show HEAD~1:notes", "notes\n"),
    ("git show :notes", "second\n"),
    ("git show 'HEAD@{0}:notes'", "second\n"),
    ("git diff HEAD~1 HEAD", "+second"),
    ("git diff HEAD~1...HEAD -- notes", "+second"),
    ("git diff HEAD~1 notes", "+second"),
    ("git diff --stat HEAD~1", " notes | 2 +-\n"),
    ("git status --short", ""),
    ("git status", "nothing to commit, working tree clean"),
    ("git grep second", "notes:second\n"),
    ("git grep -h -e notes HEAD~1 -- notes", "notes\n"),
    ("git blame -s notes", "second\n"),
    ("git blame HEAD~1 -- notes", "notes\n"),
    ("git stash list", "stash@{0}: WIP on main"),
    ("git stash show", " notes | 1 +\n"),
    ("git stash show -p 'stash@{0}'", "+more"),
    ("git cat-file -p HEAD", "second\n"),
    ("git cat-file -t HEAD", "commit\n"),
    ("git cat-file -p HEAD:notes", "second\n"),
    ("git ls-tree --name-only HEAD", "notes\n"),
    ("git ls-tree --name-only HEAD notes", "notes\n"),
    ("git ls-files", "notes\n"),
    ("git rev-parse --abbrev-ref HEAD", "main\n"),
    ("git config --get core.bare", "false\n"),
    ("git worktree list", "[main]\n"),
    ("git remote -v", ""),
    ("git reflog --format=%gs", "commit: second"),
    ("git shortlog -s -n -c HEAD", "Anna"),
    ("git describe --always --tags", ""),
    ("git diff-tree -p HEAD", "+second"),
    ("git -C sub log --format=%s -p -- ../notes", "+second"),
]


async def test_git_tells_all_else_as_ever(repository: Path) -> None:
    async with gate_at(repository) as gate:
        for command, expected in ORDINARY:
            data = data_of(await gate.call("shell.run", command=command))
            assert (command, data["return_code"], data["stderr"]) == (command, 0, "")
            assert expected in data["stdout"], (command, data)


async def test_the_words_that_were_added_are_part_of_the_bound_call(repository: Path) -> None:
    async with gate_at(repository) as gate:
        outcome = await gate.call("shell.run", command="git show HEAD")
        (intent,) = (row for row in entries(gate, "performing") if row["call_id"] == outcome.call_id)
        assert outcome.signatures == ("shell.run(git show HEAD)",)
        words = intent["body"]["resources"]["words_run"]
        assert words[:4] == ["git", "show", "HEAD^{commit}", "--"]
        assert {":(top,exclude,glob)**/.*", ":(top,exclude,glob)secrets/**", ":(top,exclude,glob)**/*.pem"} <= {*words}


async def test_a_path_of_the_past_is_judged_though_no_such_file_exists_today(repository: Path) -> None:
    git(repository, "rm", "-q", "-r", "secrets")
    (repository / "secrets").symlink_to("empty")
    async with gate_at(repository) as gate:
        assert code_of(await gate.call("shell.run", command="git show HEAD:secrets/key")) == 1002
        assert code_of(await gate.call("shell.run", command="git log -p -- secrets/key")) == 1002


async def test_no_pathspec_is_needed_where_nothing_is_kept_out(repository: Path) -> None:
    async with gate_at(repository, policy_of(allow_hidden=True, deny_paths=[])) as gate:
        shown = data_of(await gate.call("shell.run", command="git show HEAD"))["stdout"]
        assert ".env" in shown


async def test_history_is_not_shown_where_fs_read_allows_only_some_of_the_repository(repository: Path) -> None:
    async with gate_at(repository, policy_of(allow_paths=["./.git/**", "./notes"])) as gate:
        assert code_of(await gate.call("shell.run", command="git show HEAD")) == 1004
        assert data_of(await gate.call("shell.run", command="git show HEAD:notes"))["stdout"] == "second\n"
        assert code_of(await gate.call("shell.run", command="git show HEAD:sub/server.pem")) == 1002


async def test_a_repository_that_fs_read_does_not_allow_is_not_used(repository: Path, tmp_path: Path) -> None:
    inner = repository / "sub"
    async with a_gate(tmp_path, policy_of(), working_dir=inner) as gate:
        outcome = await gate.call("shell.run", command="git log")
        assert (code_of(outcome), "which fs.read does not allow" in told(outcome)) == (1004, True)


@pytest.mark.parametrize("command", ["git remote -v", "git config --get remote.origin.url"])
async def test_an_address_with_a_password_is_not_told(command: str, repository: Path) -> None:
    git(repository, "remote", "add", "origin", "https://example.test/x.git")
    async with gate_at(repository) as gate:
        assert "example.test" in data_of(await gate.call("shell.run", command=command))["stdout"]
        git(repository, "remote", "set-url", "origin", f"https://me:{CANARY}@example.test/x.git")
        assert code_of(await gate.call("shell.run", command=command)) == 1004
        assert data_of(await gate.call("shell.run", command="git remote"))["stdout"] == "origin\n"


@pytest.mark.parametrize(
    "command",
    [
        "git config --get http.https://github.com/.extraheader",
        "git config --get credential.helper",
        "git config --list",
        "git config user.name x",
        "git config --get-regexp .",
        "git config --unset user.name",
        "git stash",
        "git stash drop",
        "git worktree add x",
        "git worktree prune",
    ],
)
async def test_git_neither_writes_settings_nor_tells_secret_ones(command: str, repository: Path) -> None:
    git(repository, "config", "http.https://github.com/.extraheader", CANARY)
    async with gate_at(repository) as gate:
        assert code_of(await gate.call("shell.run", command=command)) == 1004


async def test_a_worktree_is_read_like_any_other(repository: Path) -> None:
    git(repository, "worktree", "add", "-q", "tree", "HEAD~1")
    async with gate_at(repository) as gate:
        shown = data_of(await gate.call("shell.run", command="git show --format=%s", cwd="tree"))
        assert ("+notes" in shown["stdout"], CANARY in shown["stdout"]) == (True, False)
        assert code_of(await gate.call("shell.run", command="git show HEAD:secrets/key", cwd="tree")) == 1002

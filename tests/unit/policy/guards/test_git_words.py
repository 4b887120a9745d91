"""The words with which a command line of git is really run."""

from __future__ import annotations

import shlex

import pytest

from agent_gate.policy.guards.programs.git import git
from agent_gate.policy.guards.programs.git_revisions import Tracked, commits, entry
from agent_gate.policy.guards.programs.git_words import Line, Shape
from agent_gate.policy.guards.programs.grammar import Refused

FILES = {"a.txt", "src", "*.py"}
"""What git would take for a path."""


def line_of(command: str) -> Line:
    line = git(shlex.split(command)[1:]).git
    assert line is not None
    return line


@pytest.mark.parametrize(
    ("command", "run"),
    [
        ("git show", "show -- X"),
        ("git show HEAD", "show HEAD^{commit} -- X"),
        ("git show HEAD~2^2 v1.0", "show HEAD~2^2^{commit} v1.0^{commit} -- X"),
        ("git show HEAD a.txt gone.txt", "show HEAD^{commit} -- a.txt gone.txt X"),
        ("git show HEAD -- gone.txt", "show HEAD^{commit} -- gone.txt X"),
        ("git show HEAD:a.txt", "show HEAD^{commit}:a.txt --"),
        ("git show HEAD:a.txt HEAD", "show HEAD^{commit}:a.txt HEAD^{commit} -- X"),
        ("git show HEAD^!", "show HEAD^{commit}^! -- X"),
        ("git show ^main dev", "show ^main^{commit} dev^{commit} -- X"),
        ("git show '@{2 days ago}:a.txt'", "show '@{2 days ago}^{commit}:a.txt' --"),
        ("git diff a.txt", "diff -- a.txt X"),
        ("git diff main..dev", "diff main^{commit}..dev^{commit} -- X"),
        ("git diff main... src", "diff main^{commit}... -- src X"),
        ("git diff '*.py'", "diff -- '*.py' X"),
        ("git -C src --no-pager diff --stat=80", "-C src --no-pager diff --stat=80 -- X"),
        (
            "git log -p -n 3 --since 2020 main --not dev",
            "log -p -n3 --since=2020 main^{commit} --not dev^{commit} -- X",
        ),
        ("git log -p -g stash", "log -p -g stash -- X"),
        ("git reflog -p main", "reflog -p main -- X"),
        ("git reflog show -p main", "reflog -p main -- X"),
        ("git grep -n word HEAD src", "grep -n -e word HEAD^{commit} -- src X"),
        ("git grep -e word HEAD", "grep -eword HEAD^{commit} -- X"),
        ("git ls-tree -r HEAD gone.txt", "ls-tree -r HEAD^{commit} -- gone.txt"),
        ("git cat-file -p HEAD", "cat-file -p HEAD^{commit} --"),
        ("git cat-file commit HEAD", "cat-file commit HEAD^{commit} --"),
        ("git blame -L 1,2 a.txt", "blame -L1,2 -- a.txt"),
        ("git blame main gone.txt", "blame main^{commit} -- gone.txt"),
        ("git stash show", "diff --stat stash@{0}^1^{commit} stash@{0}^{commit} -- X"),
        ("git stash show -p 2", "diff -p stash@{2}^1^{commit} stash@{2}^{commit} -- X"),
        ("git stash list", "log '--format=%gd: %gs' -g --first-parent -m --ignore-missing refs/stash --"),
        ("git status -s a.txt", "status -s -- a.txt X"),
    ],
)
def test_each_command_is_written_so_that_git_reads_it_as_it_was_judged(command: str, run: str | None) -> None:
    if run is None:
        with pytest.raises(Refused):
            line_of(command)
        return
    line = line_of(command)
    assert line.run(FILES.__contains__ if "'*" not in command else lambda _: True, ["X"] * line.filters) == shlex.split(
        run
    )


@pytest.mark.parametrize(
    "command", ["git log", "git log -1", "git log main -- a", "git branch -v", "git rev-parse HEAD"]
)
def test_what_shows_no_contents_is_run_as_it_is(command: str) -> None:
    assert line_of(command).shape is Shape.PLAIN


@pytest.mark.parametrize(
    ("command", "tracked"),
    [
        ("git show HEAD:a.txt", [Tracked("HEAD:a.txt", "a.txt", True)]),
        ("git show HEAD:./a.txt", [Tracked("HEAD:./a.txt", "./a.txt", False)]),
        ("git show :2:a.txt", [Tracked(":2:a.txt", "a.txt", True)]),
        ("git show HEAD:", [Tracked("HEAD:", "", True)]),
        ("git log -- a ':(top)b' '*.c'", [Tracked("a", "a")]),
        ("git blame ':(top)x'", [Tracked(":(top)x", ":(top)x")]),
        ("git blame main -- x", [Tracked("x", "x")]),
        ("git show main", []),
    ],
)
def test_a_path_of_whatever_time_is_named(command: str, tracked: list[Tracked]) -> None:
    assert list(line_of(command).tracked()) == tracked


@pytest.mark.parametrize(
    "word",
    ["", "-", "--all", "a b", "a..b..c", "a^{tree}", "a^{blob}", "a^{/x}", ":/x", "a:b", "a\\b", "a*", "a^{x", "{a}"],
)
def test_what_is_no_plain_name_of_a_commit_is_refused(word: str) -> None:
    with pytest.raises(Refused):
        commits(word)


@pytest.mark.parametrize("word", ["a:../b", "a..b:c", "a^{tree}:b", "a b:c"])
def test_a_path_behind_anything_but_a_commit_is_refused(word: str) -> None:
    with pytest.raises(Refused):
        entry(word)

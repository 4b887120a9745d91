"""git's tables against git: the words that are really run start nothing, change nothing and print nothing denied.

It runs outside of the sandbox, where all is there to be found: what the words alone keep it from counts here.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from agent_gate.config.policy_file import policy_from
from agent_gate.model.policy import Policy
from agent_gate.policy.guards.programs.git_options import COMMANDS
from agent_gate.policy.guards.programs.grammar import Syntax
from agent_gate.resolve.paths import PathResolver
from agent_gate.services.shell.environment import environment
from agent_gate.services.shell.looking import look
from tests.real.command_lines import spellings
from tests.real.tracing import trace

THOROUGH = os.environ.get("AGENT_GATE_THOROUGH") == "1"
LINES = 500 if THOROUGH else 10
TRIED_MAX = 100
TIMEOUT_S = 5.0
OPERANDS = ["HEAD", "main", "HEAD~1", "HEAD~1..HEAD", "a.txt", "sub", "HEAD:a.txt", "--", "v1", "stash@{0}", "word"]
ALWAYS = {"config": ("--get", "core.bare")}
OR_ELSE_HEAD = {"--contains", "--no-contains", "--merged", "--no-merged", "--points-at"}
"""They take the next word where there is one."""
DENIED = {".env", "secrets/key", "sub/.deep"}
CANARY = "CANARY"
WHO = ["-c", "user.name=Anna", "-c", "user.email=anna@example.test", "-c", "core.hooksPath=/dev/null"]

pytestmark = pytest.mark.skipif(
    shutil.which("strace") is None or shutil.which("git") is None, reason="strace or git is not installed"
)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Two commits, a tag, a stash and changes that are not committed; some of what they touch is denied."""
    top = tmp_path.resolve() / "tree"
    (top / "sub").mkdir(parents=True)
    (top / "secrets").mkdir()
    git(top, "init", "-q", "-b", "main")
    for text in ("one\n", "two\n", "three\n"):
        for name in ("a.txt", "sub/c.txt", *DENIED):
            (top / name).write_text(f"{CANARY if name in DENIED else 'word'} {text}")
        git(top, "add", "-A")
        git(top, *(("stash", "-q") if text == "three\n" else ("commit", "-q", "-m", text.strip())))
    git(top, "tag", "v1")
    (top / "a.txt").write_text("four\n")
    return top


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_a_git_command_starts_and_changes_nothing_and_prints_nothing_denied(command: str, repository: Path) -> None:
    policy = policy_from(
        {
            "version": 1,
            "tools": {
                "shell.run": {"allow_executables": ["git"]},
                "fs.read": {"allow_paths": ["./**"], "deny_paths": ["./secrets"]},
            },
        }
    )
    before = snapshot(repository)
    runs = list(accepted(command, policy, repository))
    problems = [problem for words, env in runs for problem in compare(words, env, repository)]
    assert problems == []
    assert runs
    assert snapshot(repository) == before


def accepted(command: str, policy: Policy, top: Path) -> Iterator[tuple[tuple[str, ...], dict[str, str]]]:
    """The words that are run for each line that passes, and their environment."""
    resolver, section, met = PathResolver(str(top)), policy.guards.shell_run, set()
    assert section is not None
    for line in islice(lines(command, random.Random(command)), LINES * TRIED_MAX):
        looked = look({"argv": ["git", *line]}, policy, resolver, str(top))
        passes = looked.use is not None and "repository_refused" not in looked.found
        if passes and looked.words_run not in met:
            assert looked.use is not None
            met.add(looked.words_run)
            yield looked.words_run, environment({}, section, looked.use)
        looked.release()
        if len(met) == LINES:
            return


def lines(command: str, chance: random.Random) -> Iterator[list[str]]:
    start = command.split()
    options = sorted(spellings(Syntax(COMMANDS["blame" if command == "annotate" else command], common="")))
    yield [*start, *ALWAYS.get(command, ())]
    yield from ([*start, word] for word in OPERANDS)
    while True:
        chosen = chance.choices(options, k=chance.randrange(4)) if options else []
        yield [*start, *chosen, *chance.choices(OPERANDS, k=chance.randrange(3))]


def compare(words: tuple[str, ...], env: dict[str, str], top: Path) -> Iterator[str]:
    done = trace(words, top, top.parent, TIMEOUT_S, env)
    yield from (f"{words} did {call}" for call in done.changed)
    yield from (f"{words} started {path}" for path in done.started)
    yield from (f"{words} opened {path}" for path in sorted(done.opened) if is_beside(path, top))
    if CANARY.encode() in done.printed:
        yield f"{words} printed what is denied"


def is_beside(path: str, top: Path) -> bool:
    return path.startswith(f"{top.parent}/") and not f"{path}/".startswith(f"{top}/")


@pytest.mark.parametrize("command", sorted(COMMANDS.keys() - {"annotate", "stash list"}))
def test_an_option_that_is_said_to_take_the_next_word_does_not_stand_alone(command: str, repository: Path) -> None:
    """Else the next word would be an operand that nobody judged: `git branch --abbrev x` makes a branch."""
    syntax = Syntax(COMMANDS[command], common="")
    alone = [
        name
        for name, kind in syntax.kinds.items()
        if kind in ("=", "@") and name not in OR_ELSE_HEAD and stands_alone([*command.split(), name], repository)
    ]
    assert alone == []


def stands_alone(words: list[str], top: Path) -> bool:
    done = subprocess.run(["git", *words], cwd=top, capture_output=True, stdin=subprocess.DEVNULL, check=False)
    return done.returncode == 0


def git(top: Path, *words: str) -> None:
    subprocess.run(["git", *WHO, *words], cwd=top, check=True, capture_output=True)


def snapshot(top: Path) -> dict[str, object]:
    return {str(path): path.is_file() and path.read_bytes() for path in sorted(top.rglob("*"))}


def test_what_would_be_wrong_is_seen(repository: Path) -> None:
    (repository.parent / "beside").write_text("beside")
    seen = list(compare(("cat", "../beside", ".env"), {"PATH": "/usr/bin:/bin"}, repository))
    assert [text.split(") ")[1].split()[0] for text in seen] == ["opened", "printed"]

"""The argv guard: reading a command's words and judging them, the program and its files, against `shlex.join`."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Iterator

from agent_gate.model.call import Agent, BoundCall, CallRequest, Facts
from agent_gate.model.policy import CommandGuard, Guards, PathGuard, Policy
from agent_gate.model.tool import Mode
from agent_gate.policy.guards.commands import CommandRules, signature_of, use_of
from agent_gate.policy.guards.paths import PathRules
from agent_gate.policy.guards.surroundings import Surroundings
from bench.figure import Figure, at_most, taking_turns_us

ROOT = "/srv/project"
FILES = PathGuard(allow_paths=("./src/**", "./docs/*.md", "./**"), deny_paths=("**/.env", "**/*.pem", "./private/**"))
PROGRAMS = ("awk", "cat", "find", "git", "grep", "head", "jq", "ls", "rg", "sed", "sort", "tail", "tar", "wc", "echo")
SECTION = CommandGuard(allow_executables=PROGRAMS, deny_tokens=("rm", "sudo", "--force", "&&"))
SHAPES = (
    "ls -la src/module{n}",
    "cat docs/page{n}.md",
    "git log --oneline -n 20",
    "git diff --stat HEAD~{n} -- src/main.py",
    "git status --short",
    "grep -rn 'def main{n}' src",
    "rg --glob '*.py' -n 'class Item{n}' src tests",
    "find src -name '*.py' -newer docs/page{n}.md -type f",
    "head -n {n} README.md",
    "tail -n 50 build/log{n}.txt",
    "wc -l src/a{n}.py src/b.py src/c.py src/d.py src/e.py src/f.py src/g.py src/h.py",
    "sed -n '{n},200p' src/main.py",
    "sed -e 's/old/new{n}/g' -e '/^#/d' src/main.py",
    "awk -F, '{{ sum += $2 }} END {{ print sum }}' data/table{n}.csv",
    "sort -k 2 -n data/table{n}.csv",
    "tar -tvf dist/package{n}.tar",
    "jq -r '.items[{n}].name' data/items.json",
    "echo step {n} is done",
)
MANY = ["cat", *(f"src/package/module_{number:03}/part.py" for number in range(200))]
"""As a shell's `*` would write it."""
REFERENCE = "shlex.join of the same words"


class _Command:
    """A command with what binding found of it: its program, and every file that its words name."""

    def __init__(self, argv: list[str]) -> None:
        self.argv = tuple(argv)
        use = use_of(self.argv, SECTION)
        words = dict.fromkeys((*use.reads, *use.mentions, *((use.repository,) if use.repository else ())))
        seen = {word: {"type": "absent" if word in use.mentions else "file", "nlink": 1} for word in words}
        paths = {word: {"path": f"{ROOT}/{word}", "dev": 1, "ino": 2} for word in words}
        tracked = {word: [f"{ROOT}/{word}"] for word, _, _ in use.git.tracked()} if use.git is not None else {}
        resources = {"executable": f"/usr/bin/{argv[0]}", "paths": paths, "sandbox": "bubblewrap", "tracked": tracked}
        request = CallRequest(Agent("bench"), "shell.run", {"argv": argv})
        self.bound = BoundCall("c", request, request.args, request.args, (), "h", resources)
        self.facts = Facts(1_800_000_000.0, Mode.ASSISTED, (), False, "h", found={"paths": seen, "repository": []})


def figures() -> Iterator[Figure]:
    """All that happens to the words of a call: signature, reading them, verdict; files are not opened here."""
    files = PathRules(
        "fs.read", FILES, Policy(guards=Guards({"fs.read": FILES})), Surroundings(ROOT, secret=(ROOT + "/g",))
    )
    rules = CommandRules(SECTION, files)
    # More than the guard keeps of what it has read.
    mixed = [shlex.split(SHAPES[number % len(SHAPES)].format(n=number)) for number in range(20 * len(SHAPES))]
    yield _figure("argv guard, everyday commands", rules, mixed)
    yield _figure("argv guard, 200 operands", rules, [[*MANY, f"src/last{number}.py"] for number in range(100)])


def _figure(name: str, rules: CommandRules, argvs: list[list[str]]) -> Figure:
    commands = [_Command(argv) for argv in argvs]
    ours, theirs = itertools.cycle(commands), itertools.cycle(commands)

    def guard() -> object:
        command = next(ours)
        signature_of(command.argv)
        use_of(command.argv, SECTION)
        return rules(command.bound, command.facts)

    for command in commands:
        _, problem = rules(command.bound, command.facts)
        assert problem is None, (command.argv, problem)
    guarded, joined = taking_turns_us(len(commands), guard, lambda: shlex.join(next(theirs).argv))
    return at_most(name, guarded, joined, REFERENCE, "µs", 10)

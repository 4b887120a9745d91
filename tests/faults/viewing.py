"""A place full of files that nobody may see, each with a text of its own, and command lines that might show one."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_gate.policy.guards.programs import PROGRAMS, Program
from agent_gate.policy.guards.programs.grammar import Syntax

ENDLESS = {"yes", "sleep"}
"""They read nothing, and end only with their time."""
DENY = ["./secrets", "**/*.pem", "/**/never/*.key"]
BEFORE: dict[str, list[list[str]]] = {
    **{name: [["CANARY"], ["-r", "CANARY"], ["-e", "CANARY", "-ra"]] for name in ("grep", "egrep", "fgrep", "rg")},
    "sed": [["-n", "p"], ["p"]],
    **{name: [["1"], ["{print FILENAME, $0}"]] for name in ("awk", "gawk", "mawk", "nawk", "original-awk")},
    "jq": [["-R", "."], ["."]],
    "tar": [["-tvf"], ["tf"]],
    "diff": [["-N"], ["-r", "-N"], ["-u", "-N", "-a"], []],
    "ls": [["-la"], ["-laR"], []],
    "find": [[], ["-L"]],
    "file": [[], ["-L"]],
    "tail": [["-n", "+1"]],
    "date": [["-r"]],
}
OPERANDS = [
    *([name] for name in (".", "..", "sub", "sub/..", "secrets", ".env", "notes", "@.env", "@notes", "config.yaml")),
    *([name] for name in ("gate.db", "gate.db.anchor", "sub/hard", "sub/link", "sub/within", "link", "/", "-", "~")),
    *(
        ["empty", "."],
        ["notes", "."],
        [".", ".."],
        ["notes", ".env"],
        ["@.env", "."],
        ["sub", "empty"],
        ["notes", "sub"],
    ),
]
GIT = """
diff empty . | diff . empty | diff --no-index empty . | diff --no-index notes .env | diff | diff HEAD~1
diff HEAD~1 HEAD | diff --cached HEAD~1 | diff -a HEAD~1 -- . | diff HEAD:secrets HEAD~1:secrets
diff {blob} {old} | diff {tree} | show | show HEAD | show HEAD~1 | show HEAD:.env | show HEAD:sub/server.pem
show {blob} | show {tree} | show {tree}:.env | show HEAD -- .env | show --stat -p HEAD~1 | show stash
show stash@{0}:.env | show token | show :config.yaml | log -p | log -p --all | log -p --reverse | log -p -m
log -p -c | log -p --follow notes | log -L1,1:.env | log -G CANARY -p | log -p -- :/ | log -p -- :(icase).ENV
log --check | log -p -S CANARY --pickaxe-all | log -p -U99 | log -p {blob} | whatchanged -p | reflog -p
stash list -p | stash show -p | stash show | shortlog -p | rev-list --objects --all | grep CANARY
grep CANARY HEAD | grep CANARY HEAD~1 HEAD | grep --cached CANARY | grep CANARY {tree} | grep -f .env HEAD
blame .env | blame HEAD~1 .env | blame notes | blame HEAD -- secrets/key | blame --abbrev .env
annotate sub/server.pem | cat-file -p {blob} | cat-file blob {blob} | cat-file -p HEAD:.env
cat-file -p {tree} | cat-file -p token | cat-file -p HEAD | diff-tree -p HEAD | diff-tree -p -r {tree} {tree}
diff-tree -p --root HEAD~1 | diff-index -p HEAD~1 | diff-files -p | ls-tree -r HEAD | ls-tree {tree}
ls-files -s | ls-files -o | ls-files -X .env | status | status -v | status --ignored
for-each-ref --format=%(raw) | for-each-ref --format=%(contents) | tag -n99 | tag --format=%(raw) | branch -v
config --get user.email | config --get http.x.extraheader | config --list | remote -v | worktree list
describe --always | rev-parse HEAD:.env | check-ignore -v .env | archive HEAD | -C sub diff .. ../empty
-C sub log -p | -C .. diff work x
"""


@dataclass(slots=True)
class World:
    """`work` is where commands run; its parent may be read as well, what lies beside that may not."""

    root: Path
    canaries: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    @property
    def work(self) -> Path:
        return self.root / "open" / "work"

    def policy(self, sandbox: str = "auto") -> dict[str, Any]:
        return {
            "version": 1,
            "tools": {
                "shell.run": {"allow_executables": sorted(PROGRAMS), "sandbox": sandbox, "timeout_seconds": 20},
                "fs.read": {"allow_paths": [f"{self.root}/open/**"], "deny_paths": DENY},
                "fs.write": {"allow_paths": [f"{self.root}/open/**"], "deny_paths": DENY},
            },
        }

    def hide(self, name: str) -> None:
        """A file below the root that nobody may see."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        self.canaries[name] = f"CANARY{len(self.canaries)}x{name.replace('/', '_')}"
        path.write_text(f"{self.canaries[name]} notes\n")

    def found_in(self, text: str) -> list[str]:
        return [name for name, canary in self.canaries.items() if canary in text]

    def contents(self) -> dict[str, bytes]:
        return {name: (self.root / name).read_bytes() for name in self.canaries if (self.root / name).exists()}


def make_world(root: Path) -> World:
    world = World(root)
    work = world.work
    for folder in ("empty", "sub", "pub"):
        (work / folder).mkdir(parents=True)
    (work / "notes").write_text("notes\n")
    (work / "sub" / "plain").write_text("plain\n")
    for name in (".env", "secrets/key", "sub/.deep/key", "sub/server.pem", "sub/never/a.key", "config.yaml"):
        world.hide(f"open/work/{name}")
    for name in ("open/.above", "open/beside/.key", "outside/file"):
        world.hide(name)
    (work / "sub" / "link").symlink_to("../../../outside/file")
    (work / "sub" / "within").symlink_to("../.env")
    (work / "link").symlink_to("secrets")
    _commit(world)
    os.link(work / "config.yaml", work / "sub" / "hard")
    return world


def _commit(world: World) -> None:
    """Two commits and a stash of all of it, and a tag that names a file's content."""
    work = world.work
    _git(work, "init", "-q", "-b", "main")
    _git(work, "add", "-A", "-f")
    _git(work, "commit", "-q", "-m", "first")
    world.names["{old}"] = _git(work, "rev-parse", "HEAD:.env")
    for name in (*world.canaries, "open/work/notes"):
        if name.startswith("open/work/"):
            with (world.root / name).open("a") as file:
                file.write("more\n")
    _git(work, "stash", "-q")
    _git(work, "stash", "apply", "-q")
    _git(work, "commit", "-q", "-a", "-m", "second")
    world.names["{blob}"] = _git(work, "rev-parse", "HEAD:.env")
    world.names["{tree}"] = _git(work, "rev-parse", "HEAD^{tree}")
    _git(work, "tag", "token", "HEAD:.env")


def _git(work: Path, *words: str) -> str:
    who = ["-c", "user.name=Anna", "-c", "user.email=anna@example.test", "-c", "core.hooksPath=/dev/null"]
    return subprocess.run(["git", *who, *words], cwd=work, check=True, capture_output=True, text=True).stdout.strip()


def command_lines(world: World, every: int | None, seed: int) -> list[list[str]]:
    """Each program with what may stand before its operands and the options of its table; `every` of them, or all."""
    lines = [line for name in sorted(PROGRAMS) if name not in ENDLESS and _is_here(name) for line in _lines(name)]
    lines = [[_filled(word, world) for word in line] for line in lines]
    if every is None:
        return lines
    chance = random.Random(seed)
    must = [line for line in lines if line[0] in ("git", "diff", "strings") and len(line) < 5]
    return [*chance.sample(must, min(len(must), every // 2)), *chance.sample(lines, every - every // 2)]


def _lines(name: str) -> Iterator[list[str]]:
    if name == "git":
        for text in GIT.replace("\n", "|").split("|"):
            if text.strip():
                yield ["git", *text.split()]
        return
    for before in BEFORE.get(name, [[]]):
        for operands in OPERANDS:
            yield [name, *before, *operands]
    for option in _options(PROGRAMS[name]):
        for operands in ([], ["."], ["sub"], ["empty", "."], ["notes"]):
            yield [name, *option, *BEFORE.get(name, [[]])[0], *operands]


def _options(program: Program) -> Iterator[Sequence[str]]:
    """As its table has them: alone, with a text, and with each kind of file where they take one."""
    syntax = getattr(program, "syntax", None)
    for option, kind in syntax.kinds.items() if isinstance(syntax, Syntax) else ():
        if option == "-#" or kind == "":
            yield ["-3" if option == "-#" else option]
        elif kind == "@":
            yield from ([option, path] for path in ("notes", ".env", "secrets/key", "config.yaml", "sub", "sub/within"))
        elif kind == "=":
            yield [option, "1"]
        else:
            yield [option]


def _filled(word: str, world: World) -> str:
    for name, value in world.names.items():
        word = word.replace(name, value)
    return word


def _is_here(name: str) -> bool:
    return shutil.which(name, path="/usr/bin:/bin") is not None

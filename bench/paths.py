"""The path guard: resolving a path and judging what it leads to, against opening and closing the file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from agent_gate.model.policy import Guards, PathGuard, Policy
from agent_gate.policy.guards.paths import PathRules
from agent_gate.policy.guards.surroundings import Surroundings
from agent_gate.resolve.own_watch import OwnWatch
from agent_gate.resolve.ownership import Own
from agent_gate.resolve.paths import PathResolver
from bench.figure import Figure, at_most, taking_turns_us

REFERENCE = "open, fstat, close"
LISTS = PathGuard(allow_paths=("./src/**", "./docs/*.md", "./**"), deny_paths=("**/.env", "**/*.pem", "./private/**"))


def figures(directory: Path) -> Iterator[Figure]:
    root = directory.resolve() / "paths"
    (root / "sub/dir").mkdir(parents=True)
    (root / "sub/dir/file.txt").write_text("x")
    (root / "link.txt").symlink_to("sub/dir/file.txt")
    own = tuple(str(root / name) for name in ("gate.db", "gate.db-wal", "gate.db-shm", "gate.db.anchor", "gate.db.d"))
    policy = Policy(guards=Guards({"fs.read": LISTS}))
    rules = PathRules("fs.read", LISTS, policy, Surroundings(str(root), secret=own))
    resolver = PathResolver(str(root), OwnWatch(lambda: Own(own)))

    def guard(path: str) -> object:
        target = resolver.resolve_at_once(path) or resolver.resolve(path)
        answer = rules.judge(target.path, target.found, path)
        target.release()
        return answer

    def plain(path: str) -> object:
        number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        status = os.fstat(number)
        os.close(number)
        return status

    for name, path in (("a file", "sub/dir/file.txt"), ("a link", "link.txt")):
        whole = str(root / path)
        ours, reference = taking_turns_us(500, partial(guard, path), partial(plain, whole))
        yield at_most(f"path guard, {name}", ours, reference, REFERENCE, "µs", 5)

"""The path guard: whether what a path was found to lead to may be read or written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from agent_gate.model.call import BoundCall, Facts
from agent_gate.model.policy import PathGuard, Policy
from agent_gate.model.tool import Json
from agent_gate.model.verdict import Decision, Reason
from agent_gate.model.visible import visible
from agent_gate.policy.guards.path_patterns import PathPattern, compile_patterns, literal
from agent_gate.policy.guards.surroundings import Surroundings, covering
from agent_gate.policy.layers import Answer, ask, deny
from agent_gate.policy.signature import shown

_OF_PROCESSES = "/proc/[0-9]*/**"
"""Memory, environment and open files of every process: the gate's own secrets among them."""
_OWN = " is one of the gate's own files"
_STEERS_GIT = re.compile(
    r"/\.git(?:/(?:modules|worktrees)/.+?)?/(?:config(?:\.worktree)?|hooks|commondir)(?=/|\Z)", re.IGNORECASE
)
"""A repository's own settings and hooks, which name programs, and the file that says where else these are.

No wildcard gives leave to write them. Some disks take capitals for small letters.
"""
_FILE: Mapping[str, Json] = {"type": "file"}
_NAMED_MAX = 5
"""Number of a list's patterns that a message names."""


class _Refusal(NamedTuple):
    code: int
    what: str
    suggestion: str
    rule: str = ""
    is_unlisted: bool = False
    """True where nothing denies it by name: the policy may have a person asked instead."""


class PathRules:
    """Rules about files for one tool, compiled; pure, so that a recorded call can be judged again."""

    def __init__(self, tool: str, section: PathGuard, policy: Policy, around: Surroundings) -> None:
        self.tool, self.section = tool, section
        self._writes = tool == "fs.write"
        own = around.protected + around.secret if self._writes else around.secret
        self._own = frozenset(own)

        def compiled(sources: Sequence[str], *, denies: bool) -> tuple[PathPattern, ...]:
            return compile_patterns(sources, around.working_dir, around.links, denies=denies)

        self._protected = compiled((*policy.protected_paths, _OF_PROCESSES), denies=True)
        self._denied = compiled(section.deny_paths, denies=True)
        self._allowed = compiled(section.allow_paths, denies=False)
        self._passed: dict[str, Answer] = {
            source: (Reason("guard", Decision.ALLOW, source), None) for source in section.allow_paths
        }

    def judge(self, path: str, found: Mapping[str, Json], given: str = "") -> Answer:
        """`path` is the real one, `given` the agent's word for it.

        `found` is what binding saw: `type`, `nlink`, `size`, and `same_as` where it is another name of a file of ours;
        `own` says `secret` or `protected` of one that is ours.
        What is not listed is denied, because nobody is asked in the middle of a command.
        """
        return self._judge(path, found, given, asks=False)

    def judge_or_ask(self, path: str, found: Mapping[str, Json], given: str = "") -> Answer:
        """The same where a person can be asked: with `otherwise: ask`, what is merely not listed asks."""
        return self._judge(path, found, given, asks=self.section.otherwise == "ask")

    def opened(self, folders: Iterable[str]) -> PathGuard:
        """The section as if it listed what lies below those of the directories that ask.

        For a command that runs: a person, or a rule that allows it, has agreed to its words.
        """
        agreed = [folder for folder in folders if self.judge_or_ask(folder, _FILE)[0].decision is Decision.ASK]
        below = (f"{literal(folder)}/**" for folder in agreed)
        return replace(self.section, allow_paths=(*self.section.allow_paths, *below)) if agreed else self.section

    def _judge(self, path: str, found: Mapping[str, Json], given: str, *, asks: bool) -> Answer:
        allowed = self._judge_name(path, found)
        may_ask = isinstance(allowed, _Refusal) and allowed.is_unlisted and asks
        refusal = allowed if isinstance(allowed, _Refusal) and not may_ask else self._judge_object(found)
        if refusal is not None:
            return deny("guard", refusal.code, _shown(path, given) + refusal.what, refusal.suggestion, refusal.rule)
        if isinstance(allowed, _Refusal):
            return ask("guard", _shown(path, given) + allowed.what, allowed.rule)
        return self._passed[allowed.source]

    def _judge_name(self, path: str, found: Mapping[str, Json]) -> PathPattern | _Refusal:
        """The allow pattern that covers the path, or why none may."""
        same = found.get("same_as")
        protected = self._protection(path) or (same is not None and self._protection(same)) or self._found_own(found)
        if protected:
            return _Refusal(1021, protected, "leave it alone: no section of tools: opens it")
        for pattern in self._denied:
            if pattern.matches(path):
                what = f" is under deny_paths of {self.tool} ({pattern.source})"
                return _Refusal(1002, what, "narrow it there, or leave this file alone", pattern.source)
        hiding = None
        steering = self._writes and _STEERS_GIT.search(path)
        for pattern in self._allowed:
            if pattern.matches(path):
                if steering and len(pattern.fixed) < steering.end():
                    continue
                if self.section.allow_hidden or not pattern.hides(path):
                    return pattern
                hiding = hiding or pattern
        if steering:
            return _Refusal(
                1002,
                " steers what git runs",
                f"name it outright in allow_paths of {self.tool}, without a wildcard before it",
            )
        return self._outside() if hiding is None else self._hidden(hiding)

    def _protection(self, path: str) -> str:
        """Say how a path is out of reach; empty for most."""
        if covering(self._own, path):
            return _OWN
        for pattern in self._protected:
            if pattern.matches(path):
                source = pattern.source
                return " belongs to a process" if source == _OF_PROCESSES else f" is under protected_paths ({source})"
        return ""

    def _found_own(self, found: Mapping[str, Json]) -> str:
        """For what has become one of the gate's own files since the policy came into force."""
        kind = found.get("own")
        return _OWN if kind == "secret" or (kind and self._writes) else ""

    def is_above_own(self, path: str) -> bool:
        """Tell whether one of the gate's own files lies, or would lie, below a path."""
        below = f"{path}/"
        return any(own.startswith(below) for own in self._own)

    def _outside(self) -> _Refusal:
        sources = self.section.allow_paths
        if not sources:
            return _Refusal(
                1002, f" is not allowed: allow_paths of {self.tool} is empty", "add it there", is_unlisted=True
            )
        named = ", ".join(sources[:_NAMED_MAX]) + (", …" if len(sources) > _NAMED_MAX else "")
        verb = "write" if self._writes else "read"
        return _Refusal(
            1002,
            f" is outside allow_paths of {self.tool} ({named})",
            f"add it there, or {verb} a file that they cover",
            is_unlisted=True,
        )

    def _hidden(self, pattern: PathPattern) -> _Refusal:
        return _Refusal(
            1002,
            f" is hidden: a name after the fixed part of `{pattern.source}` begins with a dot",
            f"name it in allow_paths of {self.tool}, or set allow_hidden: true there",
            pattern.source,
            is_unlisted=True,
        )

    def _judge_object(self, found: Mapping[str, Json]) -> _Refusal | None:
        kind, size, most = found.get("type"), found.get("size", 0), self.section.max_size_bytes
        if kind not in ("file", "absent"):
            return _Refusal(1002, f" is a {kind}, and only regular files are served", "name a file")
        if found.get("nlink", 1) > 1 and (self._writes or not self.section.allow_hardlinks):
            remedy = "write a new file instead" if self._writes else f"set allow_hardlinks: true under {self.tool}"
            return _Refusal(1002, " has other names besides this one (hard links)", remedy)
        if size > most:
            whole = "would have" if self._writes else "has"
            what = f" {whole} {size} bytes, more than max_size_bytes of {self.tool} ({most})"
            return _Refusal(1006, what, f"raise it there, or {'write less' if self._writes else 'read a smaller file'}")
        return None


class FileGuard:
    """The guard of `fs.read` or `fs.write`, on what its binding found."""

    def __init__(self, rules: PathRules) -> None:
        self._rules = rules

    def __call__(self, bound: BoundCall, facts: Facts) -> Answer:
        path = bound.resources.get("path")
        if path is None:
            return deny("guard", 1001, f"nobody has looked where the path of `{self._rules.tool}` leads")
        if self._rules.tool == "fs.write" and path.endswith("/.git"):
            detail = f"`{visible(path)}` would lead git to another repository's settings"
            return deny("guard", 1002, detail, "write another file")
        return self._rules.judge_or_ask(path, facts.found, bound.args["path"])


class RevertGuard:
    """For a revert that writes a file: it grants nothing, and answers otherwise what `fs.write` would."""

    def __init__(self, rules: PathRules | None) -> None:
        self._rules = rules

    def __call__(self, bound: BoundCall, facts: Facts) -> Answer:
        files = facts.found.get("files")
        if files:  # of a command, which wrote several
            answers = [answer for path, found in files.items() if (answer := self._judge(path, found)) is not _SILENT]
            return next((answer for answer in answers if answer[1] is not None), answers[0] if answers else _SILENT)
        path = bound.resources.get("path")
        return _SILENT if path is None else self._judge(path, facts.found)

    def _judge(self, path: str, found: Mapping[str, Json]) -> Answer:
        if self._rules is None:
            detail = f"`{visible(path)}` would be written, and `fs.write` has no section under tools: in the policy"
            return deny("guard", 1001, detail, 'add `tools: {fs.write: {allow_paths: ["./out/**"]}}`')
        answer = self._rules.judge_or_ask(path, found)
        return _SILENT if answer[0].decision is Decision.ALLOW else answer


_SILENT: Answer = Reason("guard"), None


def _shown(path: str, given: str) -> str:
    """The real name, and the agent's own word for it where that is another."""
    real = shown(visible(path))
    if not given or path == given or path.endswith(f"/{given.removeprefix('./')}"):
        return f"`{real}`"
    return f"`{shown(visible(given))}` (really `{real}`)"

"""The path guard: whether what a path was found to lead to may be read or written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent_gate.model.call import BoundCall, Facts
from agent_gate.model.policy import PathGuard, Policy
from agent_gate.model.tool import Json
from agent_gate.model.verdict import Decision, Reason
from agent_gate.policy.guards.path_patterns import PathPattern, compile_patterns
from agent_gate.policy.guards.surroundings import Surroundings
from agent_gate.policy.layers import Answer, deny

_OF_PROCESSES = "/proc/[0-9]*/**"
"""Memory, environment and open files of every process: the gate's own secrets among them."""
_NAMED_MAX = 5
"""How many patterns of a list a message names."""


class PathRules:
    """The lists of one tool, compiled; pure, so that a recorded call can be judged again."""

    def __init__(self, tool: str, section: PathGuard, policy: Policy, around: Surroundings) -> None:
        self.tool, self.section = tool, section
        self._writes = tool == "fs.write"
        own = around.protected + around.secret if self._writes else around.secret
        self._own = tuple(path.rstrip("/") for path in own)

        def compiled(sources: Sequence[str], *, denies: bool) -> tuple[PathPattern, ...]:
            return compile_patterns(sources, around.working_dir, around.links, denies=denies)

        self._protected = compiled((*policy.protected_paths, _OF_PROCESSES), denies=True)
        self._denied = compiled(section.deny_paths, denies=True)
        self._allowed = compiled(section.allow_paths, denies=False)

    def judge(self, path: str, found: Mapping[str, Json], given: str = "") -> Answer:
        """`found` is what binding saw of the object: type, links, size, another name of a protected file."""
        shown = _shown(path, given)
        refused = self._judge_name(path, found, shown) or self._judge_object(found, shown)
        return refused or (Reason("guard", Decision.ALLOW, self._covering(path)), None)

    def _judge_name(self, path: str, found: Mapping[str, Json], shown: str) -> Answer | None:
        same = found.get("same_as")
        if self._is_protected(path) or (isinstance(same, str) and self._is_protected(same)):
            return self._deny(1021, f"{shown} is one of the gate's own files or under protected_paths", _HANDS_OFF)
        for pattern in self._denied:
            if pattern.matches(path):
                return self._deny(
                    1002,
                    f"{shown} is under deny_paths of {self.tool} ({pattern.source})",
                    "narrow it there, or leave this file alone",
                    pattern.source,
                )
        covering = [pattern for pattern in self._allowed if pattern.matches(path)]
        if not covering:
            return self._outside(shown)
        if not self.section.allow_hidden and all(pattern.hides(path) for pattern in covering):
            return self._deny(
                1002,
                f"{shown} is hidden: a name after the fixed part of `{covering[0].source}` begins with a dot",
                f"name it in allow_paths of {self.tool}, or set allow_hidden: true there",
                covering[0].source,
            )
        return None

    def _is_protected(self, path: str) -> bool:
        for own in self._own:
            if path.startswith(own) and (len(path) == len(own) or path[len(own)] == "/"):
                return True
        return any(pattern.matches(path) for pattern in self._protected)

    def _outside(self, shown: str) -> Answer:
        sources = self.section.allow_paths
        if not sources:
            return self._deny(1002, f"{shown}: allow_paths of {self.tool} is empty, so nothing is allowed", "add it")
        named = ", ".join(sources[:_NAMED_MAX]) + (", …" if len(sources) > _NAMED_MAX else "")
        return self._deny(
            1002,
            f"{shown} is outside allow_paths of {self.tool} ({named})",
            f"add it there, or {'write' if self._writes else 'read'} a file that they cover",
        )

    def _judge_object(self, found: Mapping[str, Json], shown: str) -> Answer | None:
        kind, size = found.get("type"), found.get("size", 0)
        if kind not in ("file", "absent"):
            return self._deny(1002, f"{shown} is a {kind}, and only regular files are served", "name a file")
        if found.get("nlink", 1) > 1 and (self._writes or not self.section.allow_hardlinks):
            remedy = "write a new file instead" if self._writes else f"set allow_hardlinks: true under {self.tool}"
            return self._deny(1002, f"{shown} has other names besides this one (hard links)", remedy)
        most = self.section.max_size_bytes
        if size > most:
            whole = "would have" if self._writes else "has"
            return self._deny(
                1006,
                f"{shown} {whole} {size} bytes, more than max_size_bytes of {self.tool} ({most})",
                "raise it there" if self._writes else "raise it there, or read a smaller file",
            )
        return None

    def _covering(self, path: str) -> str:
        hidden = self.section.allow_hidden
        return next(p.source for p in self._allowed if p.matches(path) and (hidden or not p.hides(path)))

    def _deny(self, code: int, detail: str, suggestion: str, rule: str = "") -> Answer:
        return deny("guard", code, detail, suggestion, rule)


_HANDS_OFF = "choose another file; no setting opens this one"


class FileGuard:
    """The guard of `fs.read` or `fs.write`, on what its binding found."""

    def __init__(self, rules: PathRules) -> None:
        self._rules = rules

    def __call__(self, bound: BoundCall, facts: Facts) -> Answer:
        given = bound.args.get("path", "")
        return self._rules.judge(bound.resources["path"], facts.found, given if isinstance(given, str) else "")


class RevertGuard:
    """For a revert that writes a file: grants nothing, and refuses what `fs.write` would be refused."""

    def __init__(self, rules: PathRules | None) -> None:
        self._rules = rules

    def __call__(self, bound: BoundCall, facts: Facts) -> Answer:
        path = bound.resources.get("path")
        if path is None:
            return _SILENT
        if self._rules is None:
            return deny("guard", 1001, "`fs.write` has no section under tools: in the policy", "add `tools: {fs.write: …}`")
        reason, problem = self._rules.judge(path, facts.found)
        return (reason, problem) if problem else _SILENT


_SILENT: Answer = Reason("guard"), None


def _shown(path: str, given: str) -> str:
    """The real name, and the agent's own word for it where that is another; on one line, nothing invisible."""
    real = printable(path)
    if not given or path == given or path.endswith(f"/{given.removeprefix('./')}"):
        return f"`{real}`"
    return f"`{printable(given)}` (really `{real}`)"


def printable(text: str) -> str:
    """Control, bidirectional and other invisible characters written out."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else f"U+{ord(c):04X}" for c in text)

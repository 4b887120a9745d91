"""Guards: pure judgement of what a guarded tool would touch, from what binding found of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from agent_gate.model.call import BoundCall, Facts
from agent_gate.model.policy import Policy
from agent_gate.policy.guards.paths import FileGuard, PathRules, RevertGuard
from agent_gate.policy.guards.surroundings import Surroundings
from agent_gate.policy.layers import Answer

__all__ = ["GUARDED", "Guard", "Surroundings", "build_guards"]

GUARDED: Mapping[str, str] = {
    "fs.read": 'tools: {fs.read: {allow_paths: ["./**"]}}',
    "fs.write": 'tools: {fs.write: {allow_paths: ["./out/**"]}}',
    "http.get": "tools: {http.get: {allow_domains: [api.example.com]}}",
    "shell.run": "tools: {shell.run: {allow_executables: [git, ls]}}",
}
"""The tools that nothing but a section under `tools:` can grant, each with a section as people would write it."""

Guard: TypeAlias = Callable[[BoundCall, Facts], Answer]
"""Its reason says allow where it passed, deny with a code where it did not, and ask where the policy would rather."""


def build_guards(policy: Policy, surroundings: Surroundings) -> Mapping[str, Guard]:
    """A guard for each guarded tool that has a section under `tools:`, and one for reverts, which make their calls."""
    guards: dict[str, Guard] = {}
    files: dict[str, PathRules] = {}
    for tool, section in (("fs.read", policy.guards.fs_read), ("fs.write", policy.guards.fs_write)):
        if section is not None:
            files[tool] = PathRules(tool, section, policy, surroundings)
            guards[tool] = FileGuard(files[tool])
    if policy.guards.http_get is not None:
        from agent_gate.policy.guards.domains import UrlJudge  # noqa: PLC0415 -- 8 ms that few policies need

        guards["http.get"] = UrlJudge(policy.guards.http_get)
    if policy.guards.shell_run is not None:
        from agent_gate.policy.guards.commands import CommandRules  # noqa: PLC0415  # what most policies do not need

        guards["shell.run"] = CommandRules(policy.guards.shell_run, files.get("fs.read"))
    guards["gate.revert"] = RevertGuard(files.get("fs.write"))
    return guards

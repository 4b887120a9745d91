"""Guards: pure judgement of what a guarded tool would touch, from what binding found of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from agent_gate.model.call import BoundCall, Facts
from agent_gate.model.policy import Policy
from agent_gate.policy.layers import Answer

GUARDED = frozenset({"fs.read", "fs.write", "http.get", "shell.run"})

Guard: TypeAlias = Callable[[BoundCall, Facts], Answer]
"""Its reason says allow where it passed, and deny with a code where it did not."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where a gate stands: what relative patterns are relative to, and the gate's own files."""

    working_dir: str = "/"
    protected: tuple[str, ...] = ()
    """Real paths, files or whole directories, that no tool may write."""
    secret: tuple[str, ...] = ()
    """Those of them that no tool may read either."""


def build_guards(policy: Policy, surroundings: Surroundings) -> Mapping[str, Guard]:  # noqa: ARG001 -- filled tool by tool
    """A guard for each guarded tool that has a section under `tools:`."""
    return {}

"""Findings of a verification: each thing that is not as it was written, and the report on the whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agent_gate.history.clock_jumps import ClockJump
from agent_gate.model.errors import NAMES

FINDINGS_MAX = 1_000
"""A report names so many and counts the rest."""

INTEGRITY = 5004

ODD_VALUES = (TypeError, ValueError, AttributeError, LookupError, OverflowError, RecursionError)
"""Errors that values raise which no writer of ours ever wrote."""


@dataclass(frozen=True, slots=True)
class Finding:
    project: str | None
    """None where it concerns the ledger as a whole."""
    seq: int | None
    what: str
    code: int = INTEGRITY

    def to_json(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"code": self.code, "name": NAMES[self.code]}
        if self.project is not None:
            fields["project"] = self.project
        if self.seq is not None:
            fields["seq"] = self.seq
        return fields | {"what": self.what}

    def __str__(self) -> str:
        place = "" if self.project is None else f"project `{self.project}`"
        if self.seq is not None:
            place += f", entry {self.seq}"
        return " ".join((f"{place}: {self.what}" if place else self.what).split())


class Findings:
    """Collects findings up to a bound."""

    def __init__(self) -> None:
        self.kept: list[Finding] = []
        self.count = 0

    def add(self, project: object, seq: object, what: str) -> None:
        """A tampered row may hold anything where its project and number should be."""
        self.count += 1
        if len(self.kept) < FINDINGS_MAX:
            name = project if project is None or isinstance(project, str) else repr(project)[:80]
            self.kept.append(Finding(name, seq if isinstance(seq, int) else None, " ".join(what.split())))


@dataclass(frozen=True, slots=True)
class Report:
    ok: bool
    entries: int
    """Number of entries that were checked."""
    projects: int
    erased: int
    """Entries whose body is a tombstone that an erase entry vouches for."""
    problems: tuple[Finding, ...]
    more_problems: int = 0
    """Beyond those that are named."""
    unanchored: Mapping[str, int] = field(default_factory=dict)
    """Entries at the end of each chain that no line of the anchor covers: after a crash, or an anchor cut short."""
    anchor: str = "ok"
    """`ok`, `missing`, `empty`, `broken`, `no_key`"""
    clock_jumps: tuple[ClockJump, ...] = ()
    """The last times that the wall clock was set; no problem of the ledger's, and yet to be known."""
    more_clock_jumps: int = 0

    def to_json(self) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "ok": self.ok,
            "entries": self.entries,
            "projects": self.projects,
            "erased": self.erased,
            "anchor": self.anchor,
            "unanchored": dict(self.unanchored),
            "problems": [finding.to_json() for finding in self.problems],
        }
        if self.more_problems:
            fields["more_problems"] = self.more_problems
        if self.clock_jumps:
            fields["clock_jumps"] = [jump.to_json() for jump in self.clock_jumps]
        return fields

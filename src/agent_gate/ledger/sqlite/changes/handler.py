"""The shape of a change's check and write, and the work that they belong to."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from msgspec import Struct

from agent_gate.ledger.sqlite.group import Chain, Group
from agent_gate.model.committed import Refused
from agent_gate.model.entry import Draft
from agent_gate.model.work import Work

ChangeT = TypeVar("ChangeT")


class Writing(Struct):
    """One work within the writer's transaction."""

    group: Group
    work: Work
    instance: str
    """The process that writes."""
    told: dict[str, Any] = {}
    """Words of the work's first entry on its changes, so that the tables can be rebuilt from entries."""
    drafts: list[Draft] = []
    """Entries of changes: they stand before those of the work."""
    is_counted: bool = False
    """A count has changed, so that the totals are told too."""

    @property
    def cursor(self) -> sqlite3.Connection:
        return self.group.cursor

    @property
    def project(self) -> str:
        return self.work.project

    @property
    def chain(self) -> Chain:
        chain = self.group.chain(self.work.project)
        assert chain is not None, "checked, or created by an earlier change"
        return chain


@dataclass(frozen=True, slots=True)
class Handler(Generic[ChangeT]):
    """One kind of change in this ledger."""

    kind: type[ChangeT]
    write: Callable[[Writing, ChangeT], None]
    check: Callable[[Writing, ChangeT], Refused | None] | None = None
    """Says what could have changed since the caller looked; None where nothing could."""
    is_written_with_group: bool = False
    """Its rows wait for those of the other works, so that it touches no pages of its own."""

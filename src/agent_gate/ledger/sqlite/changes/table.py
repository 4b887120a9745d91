"""All changes that this ledger can make, by kind."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from agent_gate.ledger.sqlite.changes import (
    calls,
    clock,
    contacts,
    counters,
    grants,
    messages,
    projects,
    questions,
    results,
    service_tables,
)
from agent_gate.ledger.sqlite.changes.handler import Handler

_SUBJECTS = (calls, counters, questions, projects, grants, results, messages, contacts, clock, service_tables)

HANDLERS: Mapping[type, Handler[Any]] = MappingProxyType(
    {handler.kind: handler for subject in _SUBJECTS for handler in subject.HANDLERS}
)

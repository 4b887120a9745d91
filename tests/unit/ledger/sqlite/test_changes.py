"""Changes: each kind that a work can hold is one that the ledger can make."""

from __future__ import annotations

from typing import get_args

from agent_gate.ledger.sqlite.changes.table import HANDLERS
from agent_gate.model.work import Change


def test_each_kind_of_change_has_a_place_in_the_ledger() -> None:
    assert set(HANDLERS) == set(get_args(Change))

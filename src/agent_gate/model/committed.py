"""Answers of the ledger to a work: applied, or why it was refused."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from agent_gate.model.charge import Charge
from agent_gate.model.undone import Undone


class Applied(Struct, frozen=True):
    seq: int
    hash: bytes
    state_version: int


class NotOpen(Struct, frozen=True):
    status: str
    """`missing`, `archived`, `locked`, `exists`, `paused`"""


class RequestTaken(Struct, frozen=True):
    call_id: str
    input_hash: str


class NoRoom(Struct, frozen=True):
    charge: Charge
    used: float


class StateMoved(Struct, frozen=True):
    version: int


class NotPending(Struct, frozen=True):
    why: str
    """`missing`, `answered`, `late`, `other`"""


class AlreadyClosed(Struct, frozen=True):
    id: str


class GrantSpent(Struct, frozen=True):
    grant_id: str


class ClockKnown(Struct, frozen=True):
    """Another process has noted where the clock was set to."""


Refused: TypeAlias = (
    NotOpen | RequestTaken | NoRoom | StateMoved | NotPending | AlreadyClosed | GrantSpent | ClockKnown | Undone
)
Committed: TypeAlias = Applied | Refused

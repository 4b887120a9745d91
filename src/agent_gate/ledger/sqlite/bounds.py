"""Bounds that a ledger keeps to: those of `model/bounds.py`, unless whoever opens it says otherwise."""

from __future__ import annotations

from dataclasses import dataclass

from agent_gate.model import bounds


@dataclass(frozen=True, slots=True)
class LedgerBounds:
    busy_timeout_s: float = bounds.BUSY_TIMEOUT_S
    """For another program to let go of the database."""
    lock_wait_s: float = bounds.LOCK_WAIT_S
    """For another process to let go of the writer lock, or of a project's."""
    answer_poll_s: float = bounds.ANSWER_POLL_INTERVAL_S
    """Between two looks for what other processes wrote."""
    writer_queue_max: int = bounds.WRITER_QUEUE_MAX
    writer_reopen_after_s: float = bounds.WRITER_REOPEN_AFTER_S
    turns_max: int = bounds.TURNS_MAX
    """Changes of a project's state that are computed on top of each other; also their time and their bytes."""
    turns_s: float = bounds.TURNS_S
    turns_bytes_max: int = bounds.TURNS_BYTES_MAX


DEFAULT_BOUNDS = LedgerBounds()

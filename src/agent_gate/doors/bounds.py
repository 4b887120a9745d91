"""Bounds of the doors of one server: those of `model/bounds.py`, unless whoever starts it says otherwise."""

from __future__ import annotations

from dataclasses import dataclass

from agent_gate.model import bounds


@dataclass(frozen=True, slots=True)
class DoorBounds:
    handshakes_max: int = bounds.HANDSHAKES_MAX
    handshake_timeout_s: float = bounds.HANDSHAKE_TIMEOUT_S
    agent_connections_max: int = bounds.AGENT_CONNECTIONS_MAX
    plans_under_way_max: int = bounds.PLANS_UNDER_WAY_MAX
    straight_max: int = bounds.STRAIGHT_MAX
    unsent_bytes_max: int = bounds.UNSENT_BYTES_MAX
    page_bytes_max: int = bounds.PAGE_BYTES_MAX
    reads_waiting_max: int = bounds.READS_WAITING_MAX
    read_s: float = bounds.READ_S
    console_streams_max: int = bounds.CONSOLE_STREAMS_MAX
    console_search_s: float = bounds.CONSOLE_SEARCH_S
    console_preview_s: float = bounds.CONSOLE_PREVIEW_S
    health_check_s: float = bounds.HEALTH_CHECK_S
    ready_for_s: float = bounds.READY_FOR_S

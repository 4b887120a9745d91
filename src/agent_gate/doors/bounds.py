"""Bounds of the doors of one server: those of `model/limits.py`, unless whoever starts it says otherwise."""

from __future__ import annotations

from dataclasses import dataclass

from agent_gate.model import limits


@dataclass(frozen=True, slots=True)
class DoorBounds:
    handshakes_max: int = limits.HANDSHAKES_MAX
    handshake_timeout_s: float = limits.HANDSHAKE_TIMEOUT_S
    agent_connections_max: int = limits.AGENT_CONNECTIONS_MAX
    plans_under_way_max: int = limits.PLANS_UNDER_WAY_MAX
    straight_max: int = limits.STRAIGHT_MAX
    unsent_bytes_max: int = limits.UNSENT_BYTES_MAX
    page_bytes_max: int = limits.PAGE_BYTES_MAX
    reads_waiting_max: int = limits.READS_WAITING_MAX
    read_s: float = limits.READ_S
    console_streams_max: int = limits.CONSOLE_STREAMS_MAX
    console_search_s: float = limits.CONSOLE_SEARCH_S
    console_preview_s: float = limits.CONSOLE_PREVIEW_S
    health_check_s: float = limits.HEALTH_CHECK_S
    ready_for_s: float = limits.READY_FOR_S

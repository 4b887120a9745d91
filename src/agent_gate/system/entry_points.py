"""Finds what other packages offer to the gate."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

SERVICES = "agent_gate.services"
"""The group of entry points that each name a class or function without arguments, which gives a service."""


def offers(group: str) -> Collection[EntryPoint]:
    """The entry points of a group."""
    from importlib.metadata import entry_points  # noqa: PLC0415 -- 11 ms, and only other packages' tools need it

    return entry_points(group=group)

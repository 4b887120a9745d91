"""Finds what other packages offer to the gate."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

SERVICES = "agent_gate.services"
"""The group of entry points that each name a class or function without arguments, which gives a service."""


def offers(group: str) -> Collection[EntryPoint]:
    """The entry points of a group."""
    if not _may_be_named(group):
        return ()
    from importlib.metadata import entry_points  # noqa: PLC0415 -- 15 ms of 140 for a `check` that finds none

    return entry_points(group=group)


def _may_be_named(group: str) -> bool:
    """Look for the group's name in the files of installed packages; True where packages are not plain directories."""
    if any(hasattr(finder, "find_distributions") and finder is not PathFinder for finder in sys.meta_path):
        return True
    return any(_is_named_in(place or os.curdir, group.encode()) for place in sys.path)


def _is_named_in(place: str, group: bytes) -> bool:
    try:
        names = os.listdir(place)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return any(
        name.endswith(".egg") or (name.endswith((".dist-info", ".egg-info")) and group in _text(f"{place}/{name}"))
        for name in names
    )


def _text(information: str) -> bytes:
    try:
        with open(f"{information}/entry_points.txt", "rb") as file:
            return file.read()
    except OSError:
        return b""

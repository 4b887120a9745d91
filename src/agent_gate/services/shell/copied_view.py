"""A view of the disk made into a simulation's: with what earlier steps wrote, and without what they removed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from agent_gate.resolve.copies import Copies
from agent_gate.sandbox.command import Access, Place


def over_copies(
    places: Sequence[Place], copies: Copies, access: Callable[[str], Access], *, whole: bool
) -> list[Place]:
    """`whole` where all that may be used is shown, else only what lies below the places. May wait for a disk."""
    found = [_copied(place, copies) for place in places if _is_shown(copies.host(place.path))]
    levels = {place.path: place for place in found}
    for path, host in copies.entries():
        if path in levels or not _is_shown(host):
            continue
        level, around = access(path), _around(path, levels)
        if level is around or (around is Access.NONE and not whole):
            continue
        place = levels[path] = _copied(Place(path, level, os.path.isdir(host)), copies)
        found.append(place)
    return found


def _is_shown(host: str | None) -> bool:
    """A link is not: the sandbox would show what it leads to on the disk, which was judged by another name."""
    return host is not None and not os.path.islink(host)


def _around(path: str, levels: dict[str, Place]) -> Access:
    """Find how what surrounds a path may be used."""
    for folder in _above(path):
        if folder in levels:
            return levels[folder].access
    return Access.NONE


def _above(path: str) -> Iterable[str]:
    while path != "/":
        path = os.path.dirname(path)
        yield path


def _copied(place: Place, copies: Copies) -> Place:
    sources = copies.sources(place.path)
    if sources == (place.path,) or place.access is Access.NONE:
        return place
    return replace(place, is_directory=os.path.isdir(sources[-1]), descriptor=None, sources=sources)

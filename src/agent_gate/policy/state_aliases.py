"""Alias signatures of state tools: `state.set({path})` for what would change, `state.get({path})` for what is shown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice

from agent_gate.model.bounds import STATE_PATHS_CHARS_MAX, STATE_PATHS_MAX, STATE_READ_PATHS_MAX
from agent_gate.model.errors import ToolError
from agent_gate.model.tool import Json
from agent_gate.policy.documents import ABSENT, Place, changed_places, index_of, place_of, pointer_to, value_at
from agent_gate.policy.encoding import encoded_text

_WIDE_END = "/*)"
"""In a path itself the star is encoded."""
_READ = "state.get"
EVERY_STATE = ("state.get()", f"{_READ}({_WIDE_END}")
"""Of what shows an earlier state: nobody looks which paths that one has."""


def is_wide(alias: str) -> bool:
    """Tell whether it stands for every path below one, because there were too many to name."""
    return alias.endswith(_WIDE_END)


def beginning_of(alias: str) -> str:
    """Return what all names begin with that a wide alias stands for."""
    return alias[: -len(_WIDE_END) + 1]


def is_read(alias: str) -> bool:
    return alias.startswith(f"{_READ}(")


def aliases_of_get(args: Mapping[str, Json], state: Json) -> tuple[str, ...]:
    """Name what lies below the path; the path itself is in the signature."""
    place = place_of(args.get("path", ""))
    if not isinstance(value_at(state, place), dict | list):  # most reads are of one value
        return ()
    return _aliases([], islice(_held(state, place), 1, None), place, _READ, STATE_READ_PATHS_MAX)


def aliases_of_set(args: Mapping[str, Json], state: Json) -> tuple[str, ...]:
    place = really = place_of(args["path"])
    holder = value_at(state, place[:-1])
    if place and isinstance(holder, list) and place[-1] == "-":
        really = (*place[:-1], str(len(holder)))
    return _aliases([place], changed_places(value_at(state, really), args["value"], really), place)


def aliases_of_delete(args: Mapping[str, Json], state: Json) -> tuple[str, ...]:
    place = place_of(args["path"])
    if not place:
        return _aliases([place], changed_places(state, {}), place)
    holder = value_at(state, place[:-1])
    index = index_of(holder, place[-1]) if isinstance(holder, list) else None
    if index is None:
        return _aliases([place], changed_places(value_at(state, place), ABSENT, place), place)
    # Those behind it move up.
    return _aliases([place], changed_places(holder, [*holder[:index], *holder[index + 1 :]], place[:-1]), place[:-1])


def aliases_of_patch(args: Mapping[str, Json], state: Json) -> tuple[str, ...]:
    from agent_gate.policy.patches import places_named, places_read  # noqa: PLC0415 -- jsonpatch, which few calls need

    patch: Sequence[Mapping[str, Json]] = args["patch"]
    named = places_named(patch)
    # An element that comes or goes moves those behind it, so that what changes lies below what holds it.
    changed = _aliases(named, _changes_of_patch(patch, state), _common([place[:-1] for place in named]))
    return changed + _aliases_of_reading(places_read(patch), state)


def _aliases_of_reading(places: Sequence[Place], state: Json) -> tuple[str, ...]:
    """Name what a patch copies, moves or compares, which its outcome tells, and whatever that holds."""
    held = chain.from_iterable(_held(state, place) for place in places)
    return _aliases(places, held, _common(places), _READ, STATE_READ_PATHS_MAX)


def _held(state: Json, place: Place) -> Iterator[Place]:
    """The place, and all that lies below it; nothing where the state has nothing there."""
    return changed_places(ABSENT, value_at(state, place), place)


def aliases_of_change(before: Json, after: Json) -> tuple[str, ...]:
    """Of a call that brings about another state as a whole."""
    return _aliases([], changed_places(before, after), ())


def _common(places: Sequence[Place]) -> Place:
    """The place that all of them lie in, or are."""
    if not places:
        return ()
    first, last = min(places), max(places)
    same = next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    return first[:same]


def _changes_of_patch(patch: Sequence[Mapping[str, Json]], state: Json) -> Iterator[Place]:
    from agent_gate.policy.patches import patched  # noqa: PLC0415 -- as above

    try:
        after = patched(state, patch)
    except ToolError:
        return  # a patch that does not apply changes nothing, and is refused when it is performed
    yield from changed_places(state, after)


def _aliases(
    named: Sequence[Place],
    changed: Iterable[Place],
    common: Place,
    tool: str = "state.set",
    places_max: int = STATE_PATHS_MAX,
) -> tuple[str, ...]:
    """One for each place; where that would be too many, one for whatever lies below a place that holds them all."""
    found: dict[str, None] = {}
    left = STATE_PATHS_CHARS_MAX
    for place in chain(named, changed):
        left -= sum(map(len, place)) + 1
        if left < 0 or len(found) == places_max:
            at = encoded_text("path", pointer_to(common))
            below = f"{tool}({at}{_WIDE_END}"
            return (f"{tool}({at})", below) if common in named else (below,)
        found[f"{tool}({encoded_text('path', pointer_to(place))})"] = None
    return tuple(found)

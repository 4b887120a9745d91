"""Errors for names that the home does not have, with those that were perhaps meant."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from difflib import get_close_matches
from heapq import nlargest
from itertools import islice
from os.path import commonprefix

from agent_gate.model.bounds import HOME_NAME_CHARS_MAX, HOME_NAMES_COMPARED_CLOSELY_MAX, HOME_NAMES_COMPARED_MAX
from agent_gate.model.errors import ToolError
from agent_gate.model.visible import visible
from agent_gate.services.home_assistant.home import Home

NAMED_MAX = 3


class Unknown(ToolError):
    """There is no such name; `near` are those of the home that are like it."""

    def __init__(self, detail: str, near: Collection[str], otherwise: str) -> None:
        self.near, self._otherwise = tuple(near), otherwise
        named = " or ".join(f"`{shown(name)}`" for name in near)
        super().__init__(detail, code=2002, suggestion=f"did you mean {named}?" if near else otherwise)

    def without(self, is_hidden: Callable[[str], bool]) -> Unknown:
        """The same for somebody who may not see all names."""
        return Unknown(self.problem.detail, [name for name in self.near if not is_hidden(name)], self._otherwise)


def unknown_entity(home: Home, entity_id: str) -> ToolError:
    """Only ids of the same domain are named: a rule about one domain is no leave to look into others."""
    domain, _, own = entity_id.partition(".")
    detail = f"there is no entity `{shown(entity_id)}` in the home"
    names = [name.partition(".")[2] for name in home.sorted_ids() if name.startswith(f"{domain}.")]
    if not names:
        return unknown_domain(home, domain, detail)
    return _error(detail, own, names, _LOOK, f"{domain}.")


def unknown_domain(home: Home, domain: str, detail: str = "") -> ToolError:
    domains = {name.partition(".")[0]: None for name in home.sorted_ids()}
    return _error(detail or f"there is no entity of domain `{shown(domain)}` in the home", domain, domains, _LOOK)


def unknown_area(home: Home, area: str) -> ToolError:
    names = [name for each in home.areas.values() for name in (each.name, *each.aliases)]
    return _error(f"there is no area `{shown(area)}` in the home", area, names, "see `ha_list_areas`")


def places_unknown() -> ToolError:
    """Refuse where registries are not read yet: what nobody has read is not known to be missing."""
    return ToolError(
        "the areas, devices and labels of the home are not known yet: Home Assistant tells them over its WebSocket, and"
        " the gate has not got through to that since it was started",
        code=2006,
        suggestion="try again in a moment, or name single entities; whoever runs the gate finds the reason at /readyz",
    )


def unknown_services(home: Home, domain: str) -> ToolError:
    domains = dict.fromkeys(domain for domain, _ in home.services)
    detail = f"there is no service of domain `{shown(domain)}` in the home"
    return _error(detail, domain, domains, "see `ha_list_services` without a domain")


def unknown_statistic(statistic_id: str, known: Iterable[str]) -> ToolError:
    """Entities without statistics are unknown here too."""
    detail = f"there are no statistics of `{shown(statistic_id)}` in the home"
    return _error(detail, statistic_id, known, "ask `ha_get_history`, which every entity has")


_LOOK = "see `ha_list_entities`"


def _error(detail: str, name: str, names: Iterable[str], otherwise: str, before: str = "") -> ToolError:
    near = nearest(name, list(islice(names, HOME_NAMES_COMPARED_MAX)))
    return Unknown(detail, [before + each for each in near], otherwise)


def nearest(name: str, names: Collection[str]) -> list[str]:
    by_word = {each.casefold(): each for each in names}
    wanted = name[:HOME_NAME_CHARS_MAX].casefold()
    found = get_close_matches(wanted, _likely(wanted, by_word), NAMED_MAX, 0.6)
    return [by_word[word] for word in found]


def _likely(wanted: str, names: Collection[str]) -> Collection[str]:
    """Of many the few that share words or a beginning with it: a close comparison of all would take too long."""
    if len(names) <= HOME_NAMES_COMPARED_CLOSELY_MAX:
        return names
    words = set(wanted.split("_"))

    def likeness(name: str) -> tuple[int, int]:
        return len(words.intersection(name.split("_"))), len(commonprefix((wanted, name)))  # noqa: RUF071 -- no paths

    return nlargest(HOME_NAMES_COMPARED_CLOSELY_MAX, names, key=likeness)


def shown(name: str) -> str:
    """As it may stand in a message."""
    return visible(name, HOME_NAME_CHARS_MAX)

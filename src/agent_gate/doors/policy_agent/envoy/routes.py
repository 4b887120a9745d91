"""Which chain a request of Envoy's goes through."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agent_gate.config import RouteConfig

_AMBIGUOUS = re.compile(
    r"//|\\|;|/\.\.?(?:/|\Z)|%(?:[01][0-9a-f]|2[5def]|3[0-9b]|[46][1-9a-f]|[57][0-9a]|5[cf]|7[ef])", re.I
)
"""Ways to write a path that another program may read as another path.

Empty and dotted segments, backslashes, parameters; escapes of control characters, of letters, digits and `-._~`, and of
`%`, `/`, `;` and `\\` itself.
"""


@dataclass(frozen=True, slots=True)
class Asked:
    """What decides on the chain."""

    route: str
    authority: str
    path: str


class AmbiguousPath(Exception):
    """A path that could mean another one behind Envoy, where paths decide."""


class Routes:
    def __init__(self, routes: Sequence[RouteConfig]) -> None:
        self._routes = routes
        self._by_path = any(route.path for route in routes)

    def find(self, asked: Asked) -> RouteConfig | None:
        """The first that fits."""
        if self._by_path and _AMBIGUOUS.search(asked.path):
            raise AmbiguousPath
        host = _host(asked.authority)
        for route in self._routes:
            if (
                route.route in ("", asked.route)
                and _fits_host(route.authority.lower(), host)
                and _begins_with(asked.path, route.path)
            ):
                return route
        return None


def _host(authority: str) -> str:
    host = authority.lower()
    if not host.endswith("]"):
        name, separator, port = host.rpartition(":")
        host = name if separator and port.isdecimal() else host
    return host.strip("[]").removesuffix(".")


def _fits_host(wanted: str, host: str) -> bool:
    if wanted.startswith("*."):
        return host.endswith(wanted[1:]) and len(host) > len(wanted) - 1
    return wanted in ("", host)


def _begins_with(path: str, wanted: str) -> bool:
    return not wanted or path == wanted or path.startswith(f"{wanted.removesuffix('/')}/")

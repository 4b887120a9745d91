"""Routes: the chain that a request of Envoy's goes through."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agent_gate.config import RouteConfig
from agent_gate.model.errors import ConfigError, GateError
from agent_gate.policy.guards.urls import parse_authority

_AMBIGUOUS = re.compile(
    r"//|\\|;|/\.\.?(?:/|\Z)|%(?:[01][0-9a-f]|2[5def]|3[0-9b]|[46][1-9a-f]|[57][0-9a]|5[cf]|7[ef])", re.I
)
"""Ways to write a path that another program may read as another path.

Empty and dotted segments, backslashes, parameters; escapes of control characters, of letters, digits and `-._~`, and of
`%`, `/`, `;` and `\\` itself.
"""
_NO_AUTHORITY = "the authority is not a host with a port"


@dataclass(frozen=True, slots=True)
class Asked:
    """The parts of a request that decide on the chain."""

    route: str
    authority: str
    path: str


class Unclear(Exception):
    """A request that Envoy, the policies or the server behind could take for another one; the text is for the client.

    Paths where paths decide; authorities always, because Envoy's own routes go by them.
    """


class Routes:
    def __init__(self, routes: Sequence[RouteConfig]) -> None:
        self._routes = [(route, _wanted(route.authority) if route.authority else "") for route in routes]
        self._by_path = any(route.path for route in routes)

    def find(self, asked: Asked) -> RouteConfig | None:
        """The first that fits; Unclear where that could be another one for somebody else."""
        if self._by_path and _AMBIGUOUS.search(asked.path):
            raise Unclear("the path can be read in more than one way")
        host = _host(asked.authority)
        for route, wanted in self._routes:
            if route.route in ("", asked.route) and _fits_host(wanted, host) and _begins_with(asked.path, route.path):
                return route
        return None


def _host(authority: str) -> str:
    """In one spelling: lower case, without port and final dot, an address as it is written shortest."""
    try:
        if not authority.isascii():
            raise Unclear(_NO_AUTHORITY)
        return parse_authority(authority)[0]
    except GateError:
        raise Unclear(_NO_AUTHORITY) from None


def _wanted(authority: str) -> str:
    """The host of a route in that spelling; `*.shop.test` keeps its star."""
    host = authority.removeprefix("*.")
    star = authority.removesuffix(host)
    try:
        return star + parse_authority(host)[0]
    except GateError as error:
        raise ConfigError(f"policy_agent.routes: authority {authority!a}: {error.problem.detail}") from None


def _fits_host(wanted: str, host: str) -> bool:
    if wanted.startswith("*."):
        return host.endswith(wanted[1:]) and len(host) > len(wanted) - 1
    return wanted in ("", host)


def _begins_with(path: str, wanted: str) -> bool:
    return not wanted or path == wanted or path.startswith(f"{wanted.removesuffix('/')}/")

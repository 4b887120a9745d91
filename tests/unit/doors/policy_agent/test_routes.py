"""Which chain a request of Envoy's goes through, and which requests go through none."""

from __future__ import annotations

import pytest

from agent_gate.config import RouteConfig
from agent_gate.doors.policy_agent.envoy.routes import AmbiguousPath, Asked, Routes

ROUTES = Routes(
    (
        RouteConfig("orders", route="api", path="/api/orders"),
        RouteConfig("api", route="api"),
        RouteConfig("inner", authority="*.Inner.test"),
        RouteConfig("host", authority="www.test", path="/"),
        RouteConfig("slash", path="/files/"),
    )
)


@pytest.mark.parametrize(
    ("asked", "chain"),
    [
        (Asked("api", "any", "/api/orders"), "orders"),
        (Asked("api", "any", "/api/orders/7"), "orders"),
        (Asked("api", "any", "/api/ordersX"), "api"),
        (Asked("api", "any", "/API/orders"), "api"),
        (Asked("", "a.inner.test", "/"), "inner"),
        (Asked("", "A.B.INNER.TEST.:8443", "/"), "inner"),
        (Asked("", "inner.test", "/"), None),
        (Asked("", ".inner.test", "/"), None),
        (Asked("", "xinner.test", "/"), None),
        (Asked("", "www.test:80", "/x"), "host"),
        (Asked("", "www.test.evil.test", "/x"), None),
        (Asked("", "[::1]:80", "/files/x"), "slash"),
        (Asked("", "x", "/filesX"), None),
        (Asked("apis", "x", "/api/orders"), None),
        (Asked("", "x", "/caf%C3%A9%20x"), None),
    ],
)
def test_the_first_route_that_fits_names_the_chain(asked: Asked, chain: str | None) -> None:
    found = ROUTES.find(asked)
    assert (found and found.chain) == chain


@pytest.mark.parametrize(
    "path",
    ["//api", "/a/./b", "/a/..", "/a/../b", "/a\\b", "/a;b=1", "/%2e%2E/b", "/a%2Fb", "/a%5cb", "/%61pi", "/a%3bb",
     "/a%00", "/a%0a", "/a%25b", "/a%7E", "/%5F", "/%2D", "/%39", "/%5A", "/%41"],
)  # fmt: skip
def test_a_path_that_can_be_read_in_two_ways_is_refused_where_paths_decide(path: str) -> None:
    with pytest.raises(AmbiguousPath):
        ROUTES.find(Asked("api", "any", path))
    assert Routes((RouteConfig("all"),)).find(Asked("", "any", path)) == RouteConfig("all")


def test_without_routes_there_is_no_chain() -> None:
    assert Routes(()).find(Asked("api", "any", "/")) is None

"""Which chain a request of Envoy's goes through, and which requests go through none."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent_gate.config import RouteConfig
from agent_gate.doors.policy_agent.envoy.routes import Asked, Routes, Unclear
from agent_gate.model.errors import ConfigError

PLAIN = re.compile(r"(?:[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*\.?|\[[0-9A-Fa-f:.]+\])(?::[1-9][0-9]{0,4})?").fullmatch
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
        (Asked("", "xinner.test", "/"), None),
        (Asked("", "www.test:80", "/x"), "host"),
        (Asked("", "www.test.evil.test", "/x"), None),
        (Asked("", "www.test.", "/x"), "host"),
        (Asked("", "WWW.Test.:65535", "/x"), "host"),
        (Asked("", "[::1]:80", "/files/x"), "slash"),
        (Asked("", "192.0.2.1:80", "/files/x"), "slash"),
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
    with pytest.raises(Unclear):
        ROUTES.find(Asked("api", "any", path))
    assert Routes((RouteConfig("all"),)).find(Asked("", "any", path)) == RouteConfig("all")


HOSTS = st.sampled_from(["www.test", "a.inner.test", "192.0.2.1", "[2001:db8::1]", "x"])
ODD = st.text(st.characters(max_codepoint=255), max_size=4) | st.sampled_from(
    [
        "..",
        ".:",
        ":",
        ":0",
        ":080",
        ":99999",
        ":80:80",
        "@",
        "%2e",
        "%00",
        ",",
        " ",
        "\t",
        "/",
        "\\",
        "?",
        "#",
        "[",
        "]",
        ";",
    ]
)


@given(HOSTS, ODD, ODD)
@example("www.test", "", ":")
@example("www.test", "x@", "")
@example("www.test", "", "..")
@example("www.test", "", "\xff")
@example("", "", "")
def test_an_authority_has_one_reading_or_is_refused(host: str, before: str, after: str) -> None:
    """With one route for everybody: it is not the route that refuses."""
    routes = Routes((RouteConfig("all"),))
    authority = before + host + after
    try:
        routes.find(Asked("", authority, "/"))
    except Unclear:
        return
    assert PLAIN(authority), authority


@pytest.mark.parametrize(
    "authority",
    ["", ":80", "www.test:", "x@www.test", "www.test..", "www..test", ".www.test", "www.test:0", "www.test:080",
     "www.test:65536", "www.test:8 0", "www.test:http", "www%2etest", "www.test%00", "www.test, b", "www.test b",
     "[::1", "::1", "[::1]x", "[::1%25lo]", "[www.test]", "[]", "127.1", "0x7f000001", "2130706433", "w\xfcw.test",
     "www\u3002test", "www.test\u00ad", "-www.test", "www.test\t", "www.test/", "www.test\\", "www.test?"],
)  # fmt: skip
def test_an_authority_that_could_be_read_in_two_ways_is_refused(authority: str) -> None:
    with pytest.raises(Unclear):
        Routes((RouteConfig("all"),)).find(Asked("", authority, "/"))


def test_a_route_for_a_host_that_is_none_is_refused_at_start() -> None:
    with pytest.raises(ConfigError, match=r"127\.1"):
        Routes((RouteConfig("all", authority="127.1"),))


def test_without_routes_there_is_no_chain() -> None:
    assert Routes(()).find(Asked("api", "any", "/")) is None

"""The URL guard: reading a URL and judging it with the addresses that its name led to, against `urlsplit`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from urllib.parse import urlsplit

from agent_gate.model.call import Agent, BoundCall, CallRequest, Facts
from agent_gate.model.policy import UrlGuard
from agent_gate.model.tool import Mode
from agent_gate.policy.guards.domains import UrlJudge
from agent_gate.policy.guards.fetches import found, read_fetch
from agent_gate.policy.layers import Answer
from bench.figure import Figure, at_most, taking_turns_us

REFERENCE = "urlsplit, of URLs that it has not kept"
SECTION = UrlGuard(
    allow_domains=("example.com", "*.example.org", "api.example.net"),
    allow_ports=(80, 443),
    allow_schemes=("https", "http"),
)
SHAPES = (
    "https://example.com/",
    "https://docs.example.org/en/stable/page-{n}.html",
    "https://api.example.net/v1/items/{n}?fields=name,size&limit=50",
    "https://mirror{n}.eu.example.org/pub/files/{n}/archive.tar.gz",
    "https://www.example.org/search?q=a%20b%2F{n}&lang=en#results",
    "http://example.com/a/../b/./{n}/index.html",
)
ADDRESSES = ("93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c")


def urls(count: int) -> list[str]:
    """More than `urlsplit` keeps."""
    return [SHAPES[number % len(SHAPES)].format(n=number) + f"?{number}" * (number % 6 == 0) for number in range(count)]


def figures() -> Iterator[Figure]:
    """All that happens for a call beside looking up the name: parse, signature, resources, headers, verdict."""
    judge, agent = UrlJudge(SECTION), Agent("bench")
    facts = Facts(1_800_000_000.0, Mode.ASSISTED, ("operator",), False, "h", found=found(ADDRESSES))
    wanted = urls(1_200)
    ours, theirs = itertools.cycle(wanted), itertools.cycle(wanted)

    def guard() -> Answer:
        args = {"url": next(ours)}
        fetch = read_fetch(args)
        request = CallRequest(agent, "http.get", args)
        bound = BoundCall("c", request, args, args, fetch.signatures, "h", fetch.resources)
        return judge(bound, facts)

    for _ in wanted:
        _, problem = guard()
        assert problem is None, problem
    guarded, split = taking_turns_us(1_200, guard, lambda: urlsplit(next(theirs)))
    yield at_most("URL guard", guarded, split, REFERENCE, "µs", 10)

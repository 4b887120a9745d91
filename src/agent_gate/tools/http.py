"""The tool that fetches what the web shows."""

from __future__ import annotations

import re

from agent_gate.model.bounds import HEADERS_MAX, POLICY_TIMEOUT_S_MAX
from agent_gate.model.policy import UrlGuard
from agent_gate.model.tool import ArgumentKind, Effect, GuardedBy, PatternMistake, Risk, Section, ToolDeclaration
from agent_gate.policy.guards import Guard, GuardContext
from agent_gate.tools.patterns import wrong_beginning
from agent_gate.tools.schemas import TEXT, object_schema

_HOST = re.compile(r"(https?)://([^/*?\[)]*)")
_PORTS = {"http": ":80", "https": ":443"}


def _mistake_in(rest: str) -> PatternMistake | None:
    """One spelling: lower case, no default port, A-labels."""
    why = "a URL in it begins with `https://` or `http://`"
    if mistake := wrong_beginning("http.get", rest, ("http://", "https://"), why, "https://"):
        return mistake
    found = _HOST.match(rest)
    if found is None:
        return None
    scheme, host = found.groups()
    after = rest[found.end() :]
    if host != host.lower():
        return PatternMistake("a host is written in lower case", f"http.get({scheme}://{host.lower()}{after}")
    if host.endswith(_PORTS[scheme]) and after[:1] == "/":
        bare = host.removesuffix(_PORTS[scheme])
        return PatternMistake("the default port is left out", f"http.get({scheme}://{bare}{after}")
    if not host.isascii():
        return PatternMistake("a host is written in ASCII, as `xn--…`", _ascii(scheme, host, after))
    return None


def _ascii(scheme: str, host: str, after: str) -> str:
    try:
        return f"http.get({scheme}://{host.encode('idna').decode()}{after}"
    except UnicodeError:
        return ""


def _guard(section: UrlGuard, _: GuardContext) -> Guard:
    from agent_gate.policy.guards.domains import UrlJudge  # noqa: PLC0415 -- 8 ms that few policies need

    return UrlJudge(section)


HTTP_GET = ToolDeclaration(
    "http.get",
    "Fetch a URL by GET; redirects are followed where they are allowed too",
    object_schema(
        "url",
        url={"type": "string", "minLength": 1, "description": "http or https, without user name"},
        headers={"type": "object", "additionalProperties": TEXT, "maxProperties": HEADERS_MAX},
        timeout={"type": "number", "exclusiveMinimum": 0, "description": "seconds; can only lower the policy's"},
    ),
    {"headers": ArgumentKind.UNSIGNED, "timeout": ArgumentKind.UNSIGNED},
    Effect.READ,
    Risk.MEDIUM,
    1,
    sensitive=frozenset({"url", "headers"}),
    timeout_s=POLICY_TIMEOUT_S_MAX,
    guard=GuardedBy(_guard, Section(UrlGuard, "tools: {http.get: {allow_domains: [api.example.com]}}")),
    intent=True,
    signed_when_bound=True,
    mistake_in=_mistake_in,
)
"""Its own time limit is the policy's `timeout_seconds`; the one here is only the largest that a policy can set."""

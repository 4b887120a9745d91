"""The guard of `http.get`: schemes, ports, domains, and every address that a name leads to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from agent_gate.model.call import BoundCall, Facts
from agent_gate.model.errors import ConfigError, GateError
from agent_gate.model.policy import UrlGuard
from agent_gate.model.tool import Json
from agent_gate.model.verdict import Decision, Reason
from agent_gate.policy.guards.addresses import parse_address, why_not_public
from agent_gate.policy.guards.urls import normal_host
from agent_gate.policy.layers import Answer, ask, deny

_LISTED_MAX = 5
_ANY = "*"


class Domains:
    """`allow_domains` in the spelling of hosts: exact names and addresses, sub-domains of a name, or anything."""

    def __init__(self, patterns: tuple[str, ...]) -> None:
        self._patterns = patterns
        self._any = _ANY in patterns
        names = [pattern for pattern in patterns if pattern != _ANY]
        self._exact = {_host_of(name): name for name in names if not name.startswith("*.")}
        self._parents = {_parent_of(name): name for name in names if name.startswith("*.")}

    def match(self, host: str) -> str | None:
        """The pattern that lets a host pass; an address is nobody's sub-domain."""
        found = self._exact.get(host)
        if found is not None or not self._parents:
            return found or (_ANY if self._any else None)
        dot = host.find(".")
        while dot >= 0:
            found = self._parents.get(host[dot + 1 :])
            if found is not None:
                return found
            dot = host.find(".", dot + 1)
        return _ANY if self._any else None

    def __str__(self) -> str:
        listed = ", ".join(self._patterns[:_LISTED_MAX])
        return f"{listed}, …" if len(self._patterns) > _LISTED_MAX else listed or "none"


class UrlJudge:
    """One `http.get` section, compiled."""

    def __init__(self, section: UrlGuard) -> None:
        self._section = section
        self._domains = Domains(section.allow_domains)

    def __call__(self, bound: BoundCall, facts: Facts) -> Answer:
        section, given = self._section, bound.resources
        scheme, host, port = given.get("scheme"), given.get("host"), given.get("port")
        if not isinstance(host, str) or not host:
            return deny("guard", 1003, "the URL of this call was not read")
        pattern = self._domains.match(host)
        unlisted = list(self._unlisted(str(scheme), port, host, pattern))
        if unlisted and section.otherwise != "ask":
            return unlisted[0].denied
        addresses = facts.found.get("addresses") or _own_address(host)
        if section.deny_private_ips:
            private = _private(host, addresses)
            if private is not None:
                return private
        if unlisted:
            return ask("guard", "; ".join(outside.text for outside in unlisted))
        assert pattern is not None
        text = "the host is allowed" if addresses else "the host is allowed; its addresses were not looked up"
        return Reason("guard", Decision.ALLOW, pattern, text), None

    def _unlisted(self, scheme: str, port: Json, host: str, pattern: str | None) -> Iterator[_Outside]:
        section = self._section
        if scheme not in section.allow_schemes:
            yield _Outside("scheme", scheme, "allow_schemes", ", ".join(section.allow_schemes))
        if port not in section.allow_ports:
            yield _Outside("port", str(port), "allow_ports", ", ".join(map(str, section.allow_ports)))
        if pattern is None:
            yield _Outside("host", host, "allow_domains", str(self._domains))


class _Outside(NamedTuple):
    """One thing about a URL that is not listed."""

    what: str
    given: str
    field: str
    allowed: str

    @property
    def text(self) -> str:
        return f"{self.what} `{self.given}` is outside {self.field} of http.get ({self.allowed or 'none'})"

    @property
    def denied(self) -> Answer:
        return deny("guard", 1003, self.text, f"add it to {self.field} under tools: http.get, if it is meant")


def _own_address(host: str) -> tuple[str, ...]:
    return () if parse_address(host) is None else (host,)


def _private(host: str, addresses: Sequence[str]) -> Answer | None:
    if host == "localhost" or host.endswith(".localhost"):
        return _not_public(host, f"`{host}` is this host, not a public address")
    for address in addresses:
        why = why_not_public(address)
        if why is not None:
            where = f"`{host}`" if address == host else f"`{host}` leads to {address}, which"
            return _not_public(host, f"{where} is not a public address ({why})")
    return None


def _not_public(host: str, detail: str) -> Answer:
    return deny("guard", 1019, detail, f"if `{host}` is meant, set deny_private_ips: false under tools: http.get")


def _host_of(pattern: str) -> str:
    """The host that a pattern means, in the spelling in which hosts are judged."""
    address = parse_address(pattern.removeprefix("[").removesuffix("]"))
    if address is not None:
        return address.text
    try:
        return normal_host(pattern)
    except GateError as error:
        raise ConfigError(
            f"tools: http.get: allow_domains: {error.problem.detail}",
            suggestion="write a name, `*.name`, an address, or `*` alone; ports belong in allow_ports",
        ) from None


def _parent_of(pattern: str) -> str:
    host = _host_of(pattern[2:])
    if parse_address(host) is not None:
        raise ConfigError(f"tools: http.get: allow_domains: `{pattern}`: an address has no sub-domains")
    return host

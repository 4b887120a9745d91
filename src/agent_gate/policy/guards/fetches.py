"""A call of `http.get`, read from its arguments alone: enough to judge before any name is looked up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agent_gate.model.tool import Json
from agent_gate.policy.guards.headers import Headers, agent_headers
from agent_gate.policy.guards.urls import Url, parse_url


@dataclass(frozen=True, slots=True)
class Fetch:
    url: Url
    headers: Headers

    @property
    def signatures(self) -> tuple[str, ...]:
        return (self.url.signature,)

    @property
    def resources(self) -> dict[str, Json]:
        return self.url.resources


def read_fetch(args: Mapping[str, Json]) -> Fetch:
    """GateError where the URL or a header is not what may be sent."""
    return Fetch(parse_url(args["url"]), agent_headers(args.get("headers", {})))


def found(addresses: Sequence[str]) -> dict[str, Json]:
    """Facts that a look-up adds; none where there was none."""
    return {"addresses": list(addresses)} if addresses else {}

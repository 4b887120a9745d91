"""`ip_allow`: lets through who comes from one of the networks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from agent_gate.chain.context import RequestContext
from agent_gate.chain.policy import PASSED, Policy, PolicyResult, denied, object_schema
from agent_gate.model.tool import Json
from agent_gate.policy.guards.addresses import Address, parse_address

_BITS = {4: 32, 6: 128}
_MAPPED = 0xFFFF
"""The upper 96 bits of an IPv4 address that is written as an IPv6 one, ::ffff:a.b.c.d."""


@dataclass(frozen=True, slots=True)
class Network:
    version: int
    prefix: int
    length: int

    def holds(self, address: Address) -> bool:
        return address.version == self.version and address.value >> _BITS[self.version] - self.length == self.prefix


@dataclass(frozen=True, slots=True)
class IpAllowSettings:
    allow: tuple[Network, ...]
    deny: tuple[Network, ...]


class IpAllow(Policy[IpAllowSettings]):
    name = "ip_allow"
    description = "lets through who comes from one of the networks"
    metadata_schema = object_schema(
        {
            name: {"type": "array", "minItems": least, "maxItems": 1000, "items": {"type": "string", "maxLength": 64}}
            for name, least in (("allow", 1), ("deny", 0))
        },
        required=["allow"],
    )

    def prepare(self, metadata: Mapping[str, Json]) -> IpAllowSettings:
        return IpAllowSettings(_networks(metadata["allow"]), _networks(metadata.get("deny", ())))

    async def execute(self, settings: IpAllowSettings, context: RequestContext) -> PolicyResult:
        address = caller_address(context)
        if address is None:
            return denied("the caller's address is not known", 403)
        if any(network.holds(address) for network in settings.deny):
            return denied("the caller's address is denied", 403)
        if any(network.holds(address) for network in settings.allow):
            return PASSED
        return denied("the caller's address is not among those allowed", 403)


def caller_address(context: RequestContext) -> Address | None:
    """The peer's, as the proxy saw it; an IPv4 address in IPv6 clothes is the IPv4 address."""
    address = parse_address(context.client_ip)
    if address is not None and address.version == 6 and address.value >> 32 == _MAPPED:
        return Address(4, address.value & 0xFFFF_FFFF)
    return address


def _networks(texts: Iterable[str]) -> tuple[Network, ...]:
    return tuple(map(_network, texts))


def _network(text: str) -> Network:
    host, slash, digits = text.partition("/")
    address = parse_address(host)
    if address is None:
        raise ValueError(f"{text!a} is not a network")
    version, value, bits = address.version, address.value, _BITS[address.version]
    if slash and not (digits.isascii() and digits.isdigit() and len(digits) <= 3 and int(digits) <= bits):
        raise ValueError(f"{text!a} is not a network")
    length = int(digits) if slash else bits
    if version == 6 and value >> 32 == _MAPPED and length >= 96:
        version, value, length, bits = 4, value & 0xFFFF_FFFF, length - 96, 32
    if value & (1 << bits - length) - 1:
        raise ValueError(f"{text!a} has bits set behind its prefix")
    return Network(version, value >> bits - length, length)

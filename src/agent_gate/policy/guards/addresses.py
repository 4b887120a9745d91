"""Public addresses: our own table, in which every form that carries another address inside is not public.

Python's `ipaddress` calls 100.64.0.1, NAT64, 6to4 and the metadata addresses of clouds global or not private, and its
answers change between releases; a verdict must not.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import NamedTuple

_BYTE = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_QUAD = re.compile(rf"{_BYTE}(?:\.{_BYTE}){{3}}").fullmatch
_GROUPS = "[0-9A-Fa-f]{1,4}(?::[0-9A-Fa-f]{1,4}){0,7}"
_SIX = re.compile(rf"(?:{_GROUPS})?(?:::(?:{_GROUPS})?)?").fullmatch


class Address(NamedTuple):
    """Sorted by version, then by value: the order in which addresses are dialled."""

    version: int
    value: int

    @property
    def text(self) -> str:
        """The one spelling that is judged, dialled and recorded: RFC 5952, without a dotted tail."""
        if self.version == 4:
            return ".".join(str(self.value >> shift & 0xFF) for shift in (24, 16, 8, 0))
        groups = ":".join(f"{self.value >> shift & 0xFFFF:x}" for shift in range(112, -1, -16))
        longest = max(_ZEROS.finditer(groups), key=lambda run: run[0].count("0"), default=None)
        return f"{groups[: longest.start()]}::{groups[longest.end() :]}" if longest else groups


_ZEROS = re.compile(r":?\b0(?::0\b)+:?")


def parse_address(text: str) -> Address | None:
    """The address that a text spells out in full: four decimal numbers, or IPv6 without brackets and zone."""
    if ":" not in text:
        return Address(4, _four(text)) if _QUAD(text) else None
    if "." in text:
        head, _, tail = text.rpartition(":")
        if not _QUAD(tail):
            return None
        last = _four(tail)
        text = f"{head}:{last >> 16:x}:{last & 0xFFFF:x}"
    value = _six(text) if _SIX(text) else None
    return None if value is None else Address(6, value)


def _four(text: str) -> int:
    a, b, c, d = text.split(".")
    return int(a) << 24 | int(b) << 16 | int(c) << 8 | int(d)


def _six(text: str) -> int | None:
    """`::` stands for at least one group of zeros."""
    left, gap, right = text.partition("::")
    first = left.split(":") if left else []
    last = right.split(":") if right else []
    zeros = 8 - len(first) - len(last)
    if zeros < 1 if gap else zeros:
        return None
    value = 0
    for group in (*first, *("0" * zeros), *last):
        value = value << 16 | int(group, 16)
    return value


def why_not_public(text: str) -> str | None:
    """None for a public address; otherwise what it is, with its range."""
    address = parse_address(text)
    if address is None:
        return "not an address"
    if address.version == 4:
        return _FOUR.lookup(address.value)
    if address.value >> 125 != 1:
        return _SIX_LOCAL.lookup(address.value) or "not global unicast, outside 2000::/3"
    if address.value >> 32 & 0xFDFF_FFFF == _ISATAP:
        return "ISATAP, an IPv4 address inside an IPv6 one"
    return _SIX_SPECIAL.lookup(address.value)


_ISATAP = 0x0000_5EFE
"""The upper half of such an interface identifier, whatever its universal bit says."""


class _Ranges:
    """Ranges that do not overlap, found by bisection."""

    def __init__(self, bits: int, named: dict[str, str]) -> None:
        found = []
        for network, words in named.items():
            text, _, length = network.partition("/")
            first = parse_address(text)
            assert first is not None
            found.append((first.value, first.value | (1 << bits - int(length)) - 1, f"{words}, {network}"))
        found.sort()
        self._firsts = [first for first, _, _ in found]
        self._lasts = [last for _, last, _ in found]
        self._words = [words for _, _, words in found]

    def lookup(self, value: int) -> str | None:
        index = bisect_right(self._firsts, value) - 1
        return self._words[index] if index >= 0 and value <= self._lasts[index] else None


_FOUR = _Ranges(
    32,
    {
        "0.0.0.0/8": "this host",
        "10.0.0.0/8": "private",
        "100.64.0.0/10": "shared address space",
        "127.0.0.0/8": "loopback",
        "168.63.129.16/32": "the platform address of a cloud",
        "169.254.0.0/16": "link-local, where clouds keep their metadata",
        "172.16.0.0/12": "private",
        "192.0.0.0/24": "protocol assignments",
        "192.0.2.0/24": "documentation",
        "192.31.196.0/24": "AS112",
        "192.52.193.0/24": "multicast tunnelling",
        "192.88.99.0/24": "6to4 relays",
        "192.168.0.0/16": "private",
        "192.175.48.0/24": "AS112",
        "198.18.0.0/15": "benchmarking",
        "198.51.100.0/24": "documentation",
        "203.0.113.0/24": "documentation",
        "224.0.0.0/4": "multicast",
        "240.0.0.0/4": "reserved or broadcast",
    },
)
_SIX_SPECIAL = _Ranges(
    128,
    {
        "2001::/23": "protocol assignments, Teredo among them",
        "2001:db8::/32": "documentation",
        "2002::/16": "6to4, an IPv4 address inside an IPv6 one",
        "2620:4f:8000::/48": "AS112",
        "3ffe::/16": "the 6bone, given back",
        "3fff::/20": "documentation",
    },
)
_SIX_LOCAL = _Ranges(
    128,
    {
        "::/128": "this host",
        "::1/128": "loopback",
        "::ffff:0:0/96": "an IPv4 address inside an IPv6 one",
        "::ffff:0:0:0/96": "an IPv4 address inside an IPv6 one",
        "64:ff9b::/96": "NAT64, an IPv4 address inside an IPv6 one",
        "64:ff9b:1::/48": "NAT64, an IPv4 address inside an IPv6 one",
        "100::/64": "discard only",
        "5f00::/16": "segment routing",
        "fc00::/7": "unique local",
        "fe80::/10": "link-local",
        "fec0::/10": "site-local",
        "ff00::/8": "multicast",
    },
)
"""Only words: whatever is outside 2000::/3 is not public, listed here or not."""

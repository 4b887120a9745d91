"""Slows down whoever guesses tokens: failed sign-ins of one address are counted, and too many refused unread."""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from collections.abc import Callable

from agent_gate.model.limits import CONSOLE_ADDRESSES_MAX, CONSOLE_SIGN_INS_FAILED_PER_MINUTE

_INTERVAL_S = 60 / CONSOLE_SIGN_INS_FAILED_PER_MINUTE


class Throttle:
    """GCRA over failures; a sign-in that succeeds costs nothing."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._due: OrderedDict[str, float] = OrderedDict()

    def wait_s(self, address: str) -> float:
        """How long this address has to wait before it may try again; 0 where it may."""
        ahead_s = self._due.get(_neighbourhood(address), 0.0) - self._monotonic()
        return max(0.0, ahead_s - 60 + _INTERVAL_S)

    def failed(self, address: str) -> None:
        place, now = _neighbourhood(address), self._monotonic()
        self._due[place] = max(self._due.get(place, 0.0), now) + _INTERVAL_S
        self._due.move_to_end(place)
        if len(self._due) > CONSOLE_ADDRESSES_MAX:
            self._due.popitem(last=False)


def _neighbourhood(address: str) -> str:
    """One household has a whole /64 of IPv6 addresses."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)

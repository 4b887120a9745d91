"""Slows down whoever guesses tokens: failures of one address are counted, and too many refused unread."""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256

from agent_gate.model.bounds import (
    GUESSES_BESIDE_KNOWN_PER_MINUTE,
    GUESSES_PER_MINUTE,
    GUESSING_ADDRESSES_MAX,
    KNOWN_TOKENS_MAX,
    KNOWN_TOKENS_S,
)
from agent_gate.model.errors import Problem


class Throttle:
    """One for all doors of a server; a token that is right costs nothing.

    Behind one address there may be many: who has shown a right token from there lately is let in with it while the
    others wait, unless so much is guessed that this would tell the guesser too much.
    """

    def __init__(
        self,
        monotonic: Callable[[], float],
        *,
        addresses_max: int = GUESSING_ADDRESSES_MAX,
        known_max: int = KNOWN_TOKENS_MAX,
    ) -> None:
        self._monotonic, self._known_max = monotonic, known_max
        self._failures = _Allowance(GUESSES_PER_MINUTE, addresses_max)
        self._beside_known = _Allowance(GUESSES_BESIDE_KNOWN_PER_MINUTE, addresses_max)
        self._known: OrderedDict[tuple[str, bytes], float] = OrderedDict()
        """Moments when each token was right last, by address and digest."""

    def wait_s(self, address: str, token: str = "") -> float:
        """Seconds that this address has to wait before this token is looked at; 0 where it is looked at now."""
        place, now = _neighbourhood(address), self._monotonic()
        wait_s = self._failures.wait_s(place, now)
        if not wait_s or self._beside_known.wait_s(place, now):
            return wait_s
        if now - self._known.get((place, _digest(token)), -KNOWN_TOKENS_S) < KNOWN_TOKENS_S:
            return 0.0
        self._beside_known.use(place, now)
        return wait_s

    def failed(self, address: str) -> None:
        self._failures.use(_neighbourhood(address), self._monotonic())

    def succeeded(self, address: str, token: str) -> None:
        shown = _neighbourhood(address), _digest(token)
        self._known[shown] = self._monotonic()
        self._known.move_to_end(shown)
        if len(self._known) > self._known_max:
            self._known.popitem(last=False)


class _Allowance:
    """GCRA for each address: a minute's worth may come at once, then they are spread evenly."""

    def __init__(self, per_minute: int, addresses_max: int) -> None:
        self._interval_s, self._addresses_max = 60 / per_minute, addresses_max
        self._due: OrderedDict[str, float] = OrderedDict()

    def wait_s(self, place: str, now: float) -> float:
        return max(0.0, self._due.get(place, 0.0) - now - 60 + self._interval_s)

    def use(self, place: str, now: float) -> None:
        self._due[place] = max(self._due.get(place, 0.0), now) + self._interval_s
        self._due.move_to_end(place)
        if len(self._due) > self._addresses_max:
            self._due.popitem(last=False)


def slowed_down(wait_s: float) -> Problem:
    return Problem(1012, "too many attempts from this address", f"wait {seconds_of(wait_s)} seconds")


def seconds_of(wait_s: float) -> int:
    """Whole ones, of which the last is over by then."""
    return int(wait_s) + 1


def _digest(token: str) -> bytes:
    return sha256(token.encode("utf-8", "surrogatepass")).digest()


def _neighbourhood(address: str) -> str:
    """One household has a whole /64 of IPv6 addresses."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)

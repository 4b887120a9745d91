"""`rate_limit`: so many requests in so much time, by the generic cell rate algorithm, for each caller apart."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

from agent_gate.chain.builtin.identity import identity_of
from agent_gate.chain.builtin.ip_allow import caller_address
from agent_gate.chain.context import RequestContext
from agent_gate.chain.faults import PolicyFailure
from agent_gate.chain.policy import PASSED, Policy, PolicyResult, denied, object_schema
from agent_gate.model.bounds import RATE_KEYS_MAX, RATE_SWEEP_INTERVAL_S
from agent_gate.model.codec import canonical
from agent_gate.model.tool import Json
from agent_gate.ports.surroundings import Clock

_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class RateLimitSettings:
    scope: bytes
    """Limits that are worded alike count together."""
    interval_ns: int
    """Between two requests at the steady rate."""
    tolerance_ns: int
    """Seconds by which a caller may be ahead of the steady rate."""
    by: str
    header: str
    ipv6_prefix: int


class RateLimit(Policy[RateLimitSettings]):
    name = "rate_limit"
    description = "bounds how often a caller may call"
    metadata_schema = object_schema(
        {
            "limit": {"type": "integer", "minimum": 1, "maximum": 1_000_000},
            "per_seconds": {"type": "number", "exclusiveMinimum": 0, "maximum": 86_400},
            "burst": {"type": "integer", "minimum": 1, "maximum": 1_000_000},
            "by": {"enum": ["address", "header", "identity", "all"]},
            "header": {"type": "string", "pattern": "^[A-Za-z0-9-]{1,64}$"},
            "ipv6_prefix": {"type": "integer", "minimum": 16, "maximum": 128},
            "name": {"type": "string", "maxLength": 64},
        },
        required=["limit", "per_seconds"],
    )

    def __init__(self, clock: Clock, keys_max: int = RATE_KEYS_MAX) -> None:
        self._clock, self._keys_max = clock, keys_max
        self._lock = threading.Lock()
        self._due_ns: dict[bytes, int] = {}
        """Moments at which each caller would next be due at the steady rate."""
        self._swept_ns = -_NS

    def prepare(self, metadata: Mapping[str, Json]) -> RateLimitSettings:
        by, header = metadata.get("by", "address"), metadata.get("header", "")
        if (by == "header") is not bool(header):
            raise ValueError("`header` goes with by: header, and is needed there")
        interval = math.ceil(metadata["per_seconds"] * _NS / int(metadata["limit"]))
        burst = int(metadata.get("burst", metadata["limit"]))
        scope = sha256(canonical(dict(metadata))).digest()
        prefix = int(metadata.get("ipv6_prefix", 64))
        return RateLimitSettings(scope, interval, interval * (burst - 1), by, header, prefix)

    async def execute(self, settings: RateLimitSettings, context: RequestContext) -> PolicyResult:
        caller = _caller(settings, context)
        if caller is None:
            return denied("the caller cannot be told apart from others", 403)
        wait_ns = self._wait_ns(settings, sha256(settings.scope + caller.encode("utf-8", "surrogatepass")).digest())
        if wait_ns == 0:
            return PASSED
        return denied("too many requests", 429, {"retry-after": str(-(-wait_ns // _NS))})

    def _wait_ns(self, settings: RateLimitSettings, key: bytes) -> int:
        """0 where the request is in time, and counted."""
        with self._lock:
            now = int(self._clock.monotonic() * _NS)
            known = self._due_ns.get(key)
            if known is None and len(self._due_ns) >= self._keys_max and not self._swept(now):
                return _NS
            due = max(known or 0, now)
            early = due - now - settings.tolerance_ns
            if early > 0:
                return early
            self._due_ns[key] = due + settings.interval_ns
            return 0

    async def health_check(self) -> None:
        with self._lock:
            if len(self._due_ns) < self._keys_max or self._swept(int(self._clock.monotonic() * _NS)):
                return
        raise PolicyFailure(f"{self._keys_max} callers are being counted, and whoever is new is refused")

    def _swept(self, now: int) -> bool:
        """Forget those who are back at their steady rate; not too often, for that looks at all of them."""
        if now - self._swept_ns < RATE_SWEEP_INTERVAL_S * _NS:
            return False
        self._swept_ns = now
        self._due_ns = {key: due for key, due in self._due_ns.items() if due > now}
        return len(self._due_ns) < self._keys_max


def _caller(settings: RateLimitSettings, context: RequestContext) -> str | None:
    match settings.by:
        case "address":
            address = caller_address(context)
            if address is None:
                return None
            value = address.value if address.version == 4 else address.value >> 128 - settings.ipv6_prefix
            return f"{address.version}:{value}"
        case "header":
            values = context.headers.all(settings.header)
            return values[0] if len(values) == 1 else None
        case "identity":
            return identity_of(context)
        case _:
            return ""

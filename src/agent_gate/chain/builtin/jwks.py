"""Keys that verify tokens: each for one algorithm, from a set in a file or behind a URL, fetched within bounds."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import httpx2
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt.algorithms import ECAlgorithm, HMACAlgorithm, RSAAlgorithm
from jwt.exceptions import InvalidKeyError

from agent_gate.chain.faults import PolicyFailure
from agent_gate.model.bounds import (
    JWKS_AGE_S,
    JWKS_BYTES_MAX,
    JWKS_KEYS_MAX,
    JWKS_RETRY_S,
    JWKS_STALE_S,
    JWKS_TIMEOUT_S,
)
from agent_gate.model.codec import CodecError, parse
from agent_gate.model.tool import Json
from agent_gate.ports.surroundings import Clock
from agent_gate.system.regular_files import read_regular

_log = logging.getLogger(__name__)

Fetch: TypeAlias = Callable[[str], Awaitable[bytes]]

RSA_BITS_MIN = 2048
SECRET_BYTES_MIN = 32


@dataclass(frozen=True, slots=True)
class VerifyingKey:
    """Good for one algorithm only: a public key is never a secret that signs."""

    kid: str | None
    algorithm: str
    key: Any = field(repr=False)


def verifying_key(key: object, kid: str | None = None) -> VerifyingKey:
    """ValueError where the key is too weak, or for an algorithm that is not taken."""
    match key:
        case bytes() if len(key) >= SECRET_BYTES_MIN:
            return VerifyingKey(kid, "HS256", key)
        case RSAPublicKey() if key.key_size >= RSA_BITS_MIN:
            return VerifyingKey(kid, "RS256", key)
        case EllipticCurvePublicKey() if isinstance(key.curve, SECP256R1):
            return VerifyingKey(kid, "ES256", key)
        case _:
            raise ValueError("the key is too short, private, or not one of RSA, P-256 and a secret")


def read_key_set(data: bytes, *, secrets: bool) -> tuple[VerifyingKey, ...]:
    """The keys of a set that can be used; others are left out, as RFC 7517 has it."""
    try:
        document = parse(data, bytes_max=JWKS_BYTES_MAX, depth_max=8)
    except CodecError as error:
        raise PolicyFailure(f"the key set is {error}") from None
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list) or len(listed) > JWKS_KEYS_MAX:
        raise PolicyFailure(f"the key set has no list of at most {JWKS_KEYS_MAX} keys")
    found = []
    for entry in listed:
        key = _read_key(entry) if isinstance(entry, dict) else None
        if key is not None and (secrets or key.algorithm != "HS256"):
            found.append(key)
    return tuple(found)


def _read_key(entry: Mapping[str, Json]) -> VerifyingKey | None:
    kid, kind = entry.get("kid"), _KINDS.get(entry.get("kty", ""))
    if kind is None or entry.get("use", "sig") != "sig" or not isinstance(kid, str | None):
        return None
    try:
        key = verifying_key(kind(dict(entry)), kid)
    except (InvalidKeyError, ValueError, TypeError, KeyError):
        return None
    return key if entry.get("alg", key.algorithm) == key.algorithm else None


_KINDS: dict[str, Callable[[dict[str, Any]], object]] = {
    "RSA": RSAAlgorithm.from_jwk,
    "EC": ECAlgorithm.from_jwk,
    "oct": HMACAlgorithm.from_jwk,
}


class KeySource:
    """The current keys of one set: looked up anew when they are old or a token names another, but not too often."""

    def __init__(self, place: str, clock: Clock, fetch: Fetch) -> None:
        self.place, self._clock, self._fetch = place, clock, fetch
        self._is_url = "://" in place
        self._lock = asyncio.Lock()
        self._keys: tuple[VerifyingKey, ...] = ()
        self._read_at = self._looked_at = float("-inf")
        self._asked_at = clock.monotonic()
        self._trouble = ""
        """The reason why the last look found nothing."""

    @property
    def is_in_use(self) -> bool:
        """True where a token has needed it of late."""
        return self._clock.monotonic() - self._asked_at <= JWKS_STALE_S

    async def keys(self, kid: str | None) -> tuple[VerifyingKey, ...]:
        """PolicyFailure where there are none to be had; who sent the token is not told where from."""
        self._asked_at = self._clock.monotonic()
        await self._look_if_due(kid)
        if self._is_stale():
            raise PolicyFailure(
                "the keys that verify tokens cannot be had", suggestion="see whether their source is up"
            )
        return self._keys

    async def health_check(self) -> None:
        """PolicyFailure where no token can be verified now."""
        await self._look_if_due(None)
        if self._is_stale():
            raise PolicyFailure(f"the keys at {self._shown} cannot be read: {self._trouble or 'not looked at yet'}")
        if not self._keys:
            raise PolicyFailure(f"the key set at {self._shown} holds no key that can be used")

    async def _look_if_due(self, kid: str | None) -> None:
        if self._is_wanted(kid) and (self._lock.locked() or self._is_due()):
            async with self._lock:
                if self._is_wanted(kid) and self._is_due():
                    await self._look()

    def _is_stale(self) -> bool:
        return self._clock.monotonic() - self._read_at > JWKS_STALE_S

    def _is_wanted(self, kid: str | None) -> bool:
        old = self._clock.monotonic() - self._read_at >= JWKS_AGE_S
        return old or (kid is not None and all(key.kid != kid for key in self._keys))

    def _is_due(self) -> bool:
        return self._clock.monotonic() - self._looked_at >= JWKS_RETRY_S

    async def _look(self) -> None:
        self._looked_at = self._clock.monotonic()
        try:
            if self._is_url:
                async with asyncio.timeout(JWKS_TIMEOUT_S):
                    data = await self._fetch(self.place)
            else:
                data = read_regular(self.place, JWKS_BYTES_MAX)
            self._keys = read_key_set(data, secrets=not self._is_url)
        except (OSError, TimeoutError, httpx2.HTTPError, PolicyFailure) as error:
            # What was read before serves on for a while.
            self._failed(error)
            return
        self._read_at, self._trouble = self._looked_at, ""

    def _failed(self, error: Exception) -> None:
        """Told when it begins, and when it is another trouble."""
        trouble = error.problem.detail if isinstance(error, PolicyFailure) else type(error).__name__
        if trouble != self._trouble:
            _log.warning("the keys at %s cannot be read: %s", self._shown, trouble)
        self._trouble = trouble

    @property
    def _shown(self) -> str:
        """Without what a URL may carry besides the host."""
        return f"`{urlsplit(self.place).hostname}`" if self._is_url else f"`{self.place}`"


async def fetched(url: str) -> bytes:
    """Fetch a URL: no redirects, no proxies of the environment, no more bytes than a key set has."""
    async with (
        httpx2.AsyncClient(trust_env=False, follow_redirects=False, timeout=JWKS_TIMEOUT_S) as client,
        client.stream("GET", url, headers={"accept": "application/json", "accept-encoding": "identity"}) as response,
    ):
        if response.status_code != httpx2.codes.OK:
            raise PolicyFailure("the source of keys did not answer with 200")
        data = bytearray()
        async for chunk in response.aiter_raw():
            data += chunk
            if len(data) > JWKS_BYTES_MAX:
                raise PolicyFailure("the key set is too large")
    return bytes(data)

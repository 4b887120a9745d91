"""`jwt`: lets through who shows a token that a known issuer signed for us, and says whom it names."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.serialization import load_pem_public_key
from jwt.api_jws import PyJWS
from jwt.exceptions import PyJWTError

from agent_gate.chain.builtin.identity import credential, identified
from agent_gate.chain.builtin.jwks import Fetch, KeySource, VerifyingKey, fetched, verifying_key
from agent_gate.chain.context import RequestContext
from agent_gate.chain.headers import FRAMING
from agent_gate.chain.policy import Policy, PolicyResult, denied, object_schema
from agent_gate.model.bounds import IDENTIFIER_CHARS_MAX, JWT_CHARS_MAX
from agent_gate.model.codec import CodecError, parse
from agent_gate.model.errors import GateError
from agent_gate.model.tool import Json
from agent_gate.policy.guards.urls import parse_url
from agent_gate.ports.surroundings import Clock

ALGORITHMS = ("ES256", "HS256", "RS256")
SOURCES_MAX = 64

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_TEXT = {"type": "string", "minLength": 1, "maxLength": 8192}


class TokenRefused(Exception):
    """The reason why a token is not taken; no word of it is the token's own."""


@dataclass(frozen=True, slots=True)
class JwtSettings:
    algorithms: frozenset[str]
    issuer: str
    audiences: frozenset[str]
    leeway_s: float
    header: str
    scheme: str
    forward: bool
    subject_claim: str
    claims: tuple[str, ...]
    key: VerifyingKey | None
    source: KeySource | None = field(repr=False)


class Jwt(Policy[JwtSettings]):
    name = "jwt"
    description = "lets through who shows a token of a known issuer"
    metadata_schema = object_schema(
        {
            "algorithms": {"type": "array", "minItems": 1, "uniqueItems": True, "items": {"enum": list(ALGORITHMS)}},
            "issuer": _TEXT,
            "audience": {
                "anyOf": [_TEXT, {"type": "array", "minItems": 1, "maxItems": 100, "items": _TEXT}],
            },
            "leeway_seconds": {"type": "number", "minimum": 0, "maximum": 300},
            "jwks_url": _TEXT,
            "jwks_file": _TEXT,
            "public_key": _TEXT,
            "secret": _TEXT,
            "header": {"type": "string", "pattern": "^[A-Za-z0-9-]{1,64}$"},
            "scheme": {"type": "string", "pattern": "^[A-Za-z]{0,32}$"},
            "forward": {"type": "boolean"},
            "subject_claim": _TEXT,
            "claims": {"type": "array", "maxItems": 32, "items": _TEXT},
        },
        required=["algorithms", "issuer", "audience"],
        oneOf=[{"required": [name]} for name in ("jwks_url", "jwks_file", "public_key", "secret")],
    )

    def __init__(self, clock: Clock, fetch: Fetch = fetched) -> None:
        self._clock, self._fetch = clock, fetch
        self._sources: OrderedDict[str, KeySource] = OrderedDict()
        self._lasting: dict[str, KeySource] = {}
        """Those of chains of the configuration."""
        self._jws = PyJWS(algorithms=list(ALGORITHMS))

    def prepare(self, metadata: Mapping[str, Json]) -> JwtSettings:
        algorithms = frozenset(metadata["algorithms"])
        header = metadata.get("header", "authorization")
        if header.lower() in FRAMING:
            raise ValueError("`header` is one that the proxy keeps to itself")
        if "HS256" in algorithms and ("jwks_url" in metadata or "public_key" in metadata):
            raise ValueError("HS256 needs `secret` or `jwks_file`: what is public cannot be its key")
        key = _fixed_key(metadata)
        if key is not None and algorithms != {key.algorithm}:
            raise ValueError(f"the key is good for {key.algorithm} only: name it alone in `algorithms`")
        audience = metadata["audience"]
        return JwtSettings(
            algorithms,
            metadata["issuer"],
            frozenset([audience] if isinstance(audience, str) else audience),
            metadata.get("leeway_seconds", 30),
            header,
            metadata.get("scheme", "Bearer"),
            metadata.get("forward", False),
            metadata.get("subject_claim", "sub"),
            tuple(metadata.get("claims", ())),
            key,
            self._source(metadata),
        )

    def adopt(self, settings: JwtSettings) -> None:
        if settings.source is not None:
            self._lasting[settings.source.place] = settings.source

    async def health_check(self) -> None:
        """Every source of keys that the configuration names, and those that requests have needed of late."""
        of_late = {place: source for place, source in self._sources.items() if source.is_in_use}
        sources = {**of_late, **self._lasting}.values()
        found = await asyncio.gather(*(source.health_check() for source in sources), return_exceptions=True)
        failures = [failure for failure in found if isinstance(failure, BaseException)]
        if failures:
            raise failures[0]

    async def execute(self, settings: JwtSettings, context: RequestContext) -> PolicyResult:
        token = credential(context, settings.header, settings.scheme)
        if token is None or len(token) > JWT_CHARS_MAX:
            return _refused(settings, "no token")
        try:
            claims = await self._verified(settings, token)
            self._check_claims(settings, claims)
            subject = claims.get(settings.subject_claim)
            if not isinstance(subject, str) or not 0 < len(subject) <= IDENTIFIER_CHARS_MAX:
                raise TokenRefused("it names nobody")
        except TokenRefused as error:
            return _refused(settings, f"token refused: {error}")
        identity = {"id": subject, "by": self.name, "issuer": settings.issuer}
        kept = {name: claims[name] for name in settings.claims if name in claims}
        return identified({**identity, "claims": kept} if kept else identity, settings.header, forward=settings.forward)

    async def _verified(self, settings: JwtSettings, token: str) -> dict[str, Json]:
        try:
            header = self._jws.get_unverified_header(token)
            kid, algorithm = header.get("kid"), header.get("alg")
            if "crit" in header or "b64" in header:
                raise TokenRefused("its header asks for extensions")
            if not isinstance(algorithm, str) or algorithm not in settings.algorithms:
                raise TokenRefused("its algorithm is not among those allowed")
            key = await _key(settings, kid, algorithm)
            verified = self._jws.decode_complete(token, key.key, algorithms=[key.algorithm])
            claims = parse(verified["payload"], bytes_max=JWT_CHARS_MAX, depth_max=16)
        except (PyJWTError, CodecError, ValueError):
            raise TokenRefused("it is malformed or its signature does not hold") from None
        if not isinstance(claims, dict):
            raise TokenRefused("it holds no claims")
        return claims

    def _check_claims(self, settings: JwtSettings, claims: Mapping[str, Json]) -> None:
        now, leeway = self._clock.now(), settings.leeway_s
        for name in ("exp", "nbf", "iat"):
            if name in claims and (isinstance(claims[name], bool) or not isinstance(claims[name], int | float)):
                raise TokenRefused(f"`{name}` is no moment")
        if "exp" not in claims or now >= claims["exp"] + leeway:
            raise TokenRefused("it has expired, or says not when it does")
        if claims.get("nbf", now) > now + leeway or claims.get("iat", now) > now + leeway:
            raise TokenRefused("it is not valid yet")
        if claims.get("iss") != settings.issuer:
            raise TokenRefused("its issuer is another")
        audience = claims.get("aud")
        meant_for = [audience] if isinstance(audience, str) else audience
        if not isinstance(meant_for, list) or not any(
            isinstance(each, str) and each in settings.audiences for each in meant_for
        ):
            raise TokenRefused("it is meant for others")

    def _source(self, metadata: Mapping[str, Json]) -> KeySource | None:
        """The same for every chain that names it, so that it is fetched once."""
        if "jwks_url" in metadata:
            place = _checked_url(metadata["jwks_url"])
        elif "jwks_file" in metadata:
            place = metadata["jwks_file"]
            if "://" in place:
                raise ValueError("`jwks_file` is a path")
        else:
            return None
        source = (
            self._lasting.get(place) or self._sources.pop(place, None) or KeySource(place, self._clock, self._fetch)
        )
        self._sources[place] = source
        if len(self._sources) > SOURCES_MAX:
            self._sources.popitem(last=False)
        return source


async def _key(settings: JwtSettings, kid: str | None, algorithm: str) -> VerifyingKey:
    """The one key that the token names; where it names none, the only one there is for its algorithm."""
    if settings.source is None:
        assert settings.key is not None
        return settings.key
    fitting = [
        key for key in await settings.source.keys(kid) if key.algorithm == algorithm and (kid is None or key.kid == kid)
    ]
    if len(fitting) != 1:
        raise TokenRefused("its key is not known")
    return fitting[0]


def _fixed_key(metadata: Mapping[str, Json]) -> VerifyingKey | None:
    if "secret" in metadata:
        return verifying_key(metadata["secret"].encode())
    if "public_key" not in metadata:
        return None
    try:
        key = load_pem_public_key(metadata["public_key"].encode())
    except Exception:
        raise ValueError("`public_key` is not a public key in PEM") from None
    return verifying_key(key)


def _checked_url(text: str) -> str:
    try:
        url = parse_url(text)
    except GateError as error:
        raise ValueError(f"`jwks_url`: {error.problem.detail}") from None
    if url.scheme != "https" and url.host not in _LOOPBACK:
        raise ValueError("`jwks_url` must be https, or on this machine")
    return url.text


def _refused(settings: JwtSettings, message: str) -> PolicyResult:
    return denied(message, 401, {"www-authenticate": settings.scheme or "Bearer"})

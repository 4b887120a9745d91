"""`api_key`: lets through who shows one of the keys, and says whose it is."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256

from agent_gate.chain.builtin.identity import credential, identified
from agent_gate.chain.context import RequestContext
from agent_gate.chain.headers import FRAMING
from agent_gate.chain.policy import Policy, PolicyResult, denied, object_schema
from agent_gate.model.tool import Json


@dataclass(frozen=True, slots=True)
class ApiKeySettings:
    digests: tuple[tuple[bytes, str], ...] = field(repr=False)
    """Of each key, with the id of its owner."""
    header: str
    scheme: str
    forward: bool


class ApiKey(Policy[ApiKeySettings]):
    name = "api_key"
    description = "lets through who shows a known key"
    metadata_schema = object_schema(
        {
            "keys": {
                "type": "array",
                "minItems": 1,
                "maxItems": 1000,
                "items": {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["id"],
                    "properties": {
                        "id": {"type": "string", "minLength": 1, "maxLength": 200},
                        "key": {"type": "string", "minLength": 16, "maxLength": 4096},
                        "sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
                    },
                    "oneOf": [{"required": ["key"]}, {"required": ["sha256"]}],
                },
            },
            "header": {"type": "string", "pattern": "^[A-Za-z0-9-]{1,64}$"},
            "scheme": {"type": "string", "pattern": "^[A-Za-z]{0,32}$"},
            "forward": {"type": "boolean"},
        },
        required=["keys"],
    )

    def prepare(self, metadata: Mapping[str, Json]) -> ApiKeySettings:
        header = metadata.get("header", "x-api-key")
        if header.lower() in FRAMING:
            raise ValueError("`header` is one that the proxy keeps to itself")
        digests = tuple((_digest(each), each["id"]) for each in metadata["keys"])
        if len({digest for digest, _ in digests}) < len(digests):
            raise ValueError("two of `keys` are the same key")
        return ApiKeySettings(digests, header, metadata.get("scheme", ""), metadata.get("forward", False))

    async def execute(self, settings: ApiKeySettings, context: RequestContext) -> PolicyResult:
        given = credential(context, settings.header, settings.scheme)
        if given is None:
            return _refused(settings, "no API key", "is needed once")
        presented = sha256(given.encode("utf-8", "surrogatepass")).digest()
        owner = None
        # All of them, however early one fits: how long it takes says nothing about which.
        for digest, identity in settings.digests:
            if hmac.compare_digest(digest, presented):
                owner = identity
        if owner is None:
            return _refused(settings, "unknown API key", "holds a key that is not known here")
        return identified({"id": owner, "by": self.name}, settings.header, forward=settings.forward)


def _digest(each: Mapping[str, str]) -> bytes:
    return bytes.fromhex(each["sha256"]) if "sha256" in each else sha256(each["key"].encode()).digest()


def _refused(settings: ApiKeySettings, message: str, words: str) -> PolicyResult:
    return denied(
        message,
        401,
        {"www-authenticate": settings.scheme or "ApiKey"},
        {"detail": f"header `{settings.header}` {words}"},
    )

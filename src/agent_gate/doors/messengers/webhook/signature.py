"""Signatures of webhooks as the Standard Webhooks specification has them: HMAC-SHA256 over id, time and body."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hmac import compare_digest, digest

ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
SECRET_PREFIX = "whsec_"  # noqa: S105 -- of every secret
_VERSION = "v1,"
_SIGNATURES_MAX = 8
"""Of one message: while a secret is replaced, there are two."""
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_TIMESTAMP = re.compile(r"[0-9]{1,12}")


@dataclass(frozen=True, slots=True)
class Signed:
    """The headers of a message that has their shape; nothing is known yet of whether it is genuine."""

    id: str
    timestamp: int
    signatures: tuple[str, ...]


class Signer:
    def __init__(self, secret: str) -> None:
        self._key = b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)

    def headers(self, message_id: str, timestamp: int, body: bytes) -> Mapping[str, str]:
        signature = self._signature(message_id, timestamp, body)
        return {ID: message_id, TIMESTAMP: str(timestamp), SIGNATURE: signature}

    def is_genuine(self, signed: Signed, body: bytes) -> bool:
        """Compare every signature in constant time: the time taken says nothing of which was near."""
        expected = self._signature(signed.id, signed.timestamp, body).encode()
        found = [compare_digest(one.encode("utf-8", "surrogatepass"), expected) for one in signed.signatures]
        return any(found)

    def _signature(self, message_id: str, timestamp: int, body: bytes) -> str:
        content = f"{message_id}.{timestamp}.".encode() + body
        return _VERSION + b64encode(digest(self._key, content, "sha256")).decode()


def signed_by(ids: Sequence[str], timestamps: Sequence[str], signatures: Sequence[str]) -> Signed | None:
    """The values of the three headers; None where one is missing, given twice or of another shape.

    Neither id nor time can hold the full stop that parts them from each other and from the body.
    """
    if not len(ids) == len(timestamps) == len(signatures) == 1:
        return None
    listed = tuple(signatures[0].split(" ", _SIGNATURES_MAX))
    if not (_ID.fullmatch(ids[0]) and _TIMESTAMP.fullmatch(timestamps[0])) or len(listed) > _SIGNATURES_MAX:
        return None
    # What was signed is the text: a time with zeros before it would be another one to the sender.
    return None if str(int(timestamps[0])) != timestamps[0] else Signed(ids[0], int(timestamps[0]), listed)

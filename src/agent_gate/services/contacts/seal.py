"""The seal on one value: AES-256-GCM under a key of its own, bound to the name that the value is kept under."""

from __future__ import annotations

import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

LABEL = b"agent-gate contact_info 1"
NONCE_BYTES = 12


class Seal:
    """Closes and opens values; a row that was put under another name does not open."""

    def __init__(self, secret: bytes) -> None:
        self._cipher = AESGCM(HKDF(SHA256(), 32, salt=None, info=LABEL).derive(secret))

    def close(self, key: str, value: str) -> bytes:
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, value.encode(), key.encode())

    def open(self, key: str, sealed: bytes) -> str | None:
        """None where it was not closed under this name and secret."""
        nonce, text = sealed[:NONCE_BYTES], sealed[NONCE_BYTES:]
        try:
            return self._cipher.decrypt(nonce, text, key.encode()).decode()
        except (InvalidTag, ValueError):
            return None

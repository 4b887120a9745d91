"""Tokens, good and forged, and the metadata that judge them."""

from __future__ import annotations

import base64
import hmac
import json
from functools import cache
from hashlib import sha256
from typing import Any

import jwt as pyjwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from agent_gate.chain.accumulator import Response
from agent_gate.chain.builtin.jwt import Jwt
from agent_gate.chain.context import RequestContext
from agent_gate.chain.policy import StatusCode
from tests.gates import HandClock
from tests.unit.chain.builtin.asking import answer_of, ask

SECRET = "a secret of more than thirty-two bytes"
ISSUER, AUDIENCE = "https://issuer.example", "gate"


@cache
def rsa_key(bits: int = 2048) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, bits)


@cache
def ec_key(curve: str = "secp256r1") -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1() if curve == "secp256r1" else ec.SECP384R1())


def pem(key: Any) -> str:
    data: bytes = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return data.decode()


def jwk(key: Any, kid: str | None, **more: Any) -> dict[str, Any]:
    kind = RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else ECAlgorithm
    entry = kind.to_jwk(key.public_key(), as_dict=True)
    return {**entry, **({"kid": kid} if kid else {}), **more}


def claims(clock: HandClock, **more: Any) -> dict[str, Any]:
    now = int(clock.now())
    whole = {"sub": "anna", "iss": ISSUER, "aud": AUDIENCE, "exp": now + 60, "iat": now, **more}
    return {name: value for name, value in whole.items() if value is not None}


def signed(key: Any, algorithm: str, payload: dict[str, Any], **header: Any) -> str:
    return pyjwt.encode(payload, key, algorithm, headers=header or None)


def segment(value: Any) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def forged(header: Any, payload: Any, key: bytes | None = None) -> str:
    """A token made by hand: its signature is an HMAC of the key, or nothing."""
    text = f"{segment(header)}.{segment(payload)}"
    return f"{text}.{segment(hmac.new(key, text.encode(), sha256).digest()) if key is not None else ''}"


def metadata(**more: Any) -> dict[str, Any]:
    return {"algorithms": ["HS256"], "issuer": ISSUER, "audience": AUDIENCE, "secret": SECRET, **more}


def without_secret(**more: Any) -> dict[str, Any]:
    return {name: value for name, value in metadata(**more).items() if name != "secret"}


def with_token(token: str, scheme: str = "Bearer") -> RequestContext:
    return RequestContext.create(headers={"Authorization": f"{scheme} {token}"})


async def judged(token: str, given: dict[str, Any], clock: HandClock, policy: Jwt | None = None) -> Response:
    return await ask(policy or Jwt(clock), given, with_token(token))


def refused(response: Response) -> bool:
    assert response.status is StatusCode.POLICY_DENIED
    status, headers, _ = answer_of(response)
    assert (status, headers["www-authenticate"]) == (401, "Bearer")
    assert "identity" not in response.context.state
    return True

"""`jwt`: tokens that a known issuer signed for us, and every way in which others try to look like one."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from agent_gate.chain.builtin.jwt import Jwt
from agent_gate.chain.context import RequestContext
from agent_gate.chain.faults import InvalidRequest
from tests.gates import HandClock
from tests.unit.chain.builtin.asking import ask
from tests.unit.chain.builtin.tokens import (
    AUDIENCE,
    ISSUER,
    SECRET,
    claims,
    ec_key,
    forged,
    judged,
    jwk,
    metadata,
    pem,
    refused,
    rsa_key,
    segment,
    signed,
    without_secret,
)


@pytest.mark.parametrize(
    ("algorithm", "key", "given"),
    [
        ("HS256", SECRET, metadata()),
        ("RS256", rsa_key(), without_secret(algorithms=["RS256"], public_key=pem(rsa_key()))),
        ("ES256", ec_key(), without_secret(algorithms=["ES256"], public_key=pem(ec_key()))),
    ],
    ids=["HS256", "RS256", "ES256"],
)
async def test_a_signed_token_names_its_subject_and_goes_no_further(algorithm: str, key: Any, given: Any) -> None:
    clock = HandClock()
    token = signed(key, algorithm, claims(clock, team="blue"))
    response = await judged(token, {**given, "claims": ["team", "absent"]}, clock)
    assert response.passes
    assert response.context.state["identity"] == {
        "id": "anna", "by": "jwt", "issuer": ISSUER, "claims": {"team": "blue"},
    }  # fmt: skip
    assert "authorization" not in response.context.headers


@pytest.mark.parametrize(
    "changed",
    [
        {"exp": None},
        {"exp": 0},
        {"exp": "9999999999"},
        {"exp": True},
        {"exp": -31},
        {"nbf": 31},
        {"iat": 31},
        {"nbf": "x"},
        {"iss": None},
        {"iss": "https://other.example"},
        {"iss": [ISSUER]},
        {"aud": None},
        {"aud": "other"},
        {"aud": ["other"]},
        {"aud": []},
        {"aud": {"gate": 1}},
        {"aud": 7},
        {"sub": None},
        {"sub": ""},
        {"sub": 7},
        {"sub": "x" * 300},
    ],
)
async def test_claims_that_do_not_hold_are_refused(changed: dict[str, Any]) -> None:
    clock = HandClock()
    moments = {
        name: int(clock.now()) + value if type(value) is int and name in ("exp", "nbf", "iat") and value else value
        for name, value in changed.items()
    }
    payload = {**claims(clock), **moments}
    token = forged({"alg": "HS256"}, {k: v for k, v in payload.items() if v is not None}, SECRET.encode())
    assert refused(await judged(token, metadata(), clock))


@pytest.mark.parametrize("changed", [{"exp": -29}, {"nbf": 29}, {"iat": 29}, {"aud": ["other", AUDIENCE]}])
async def test_claims_within_the_leeway_hold(changed: dict[str, Any]) -> None:
    clock = HandClock()
    moments = {name: value if isinstance(value, list) else int(clock.now()) + value for name, value in changed.items()}
    assert (await judged(signed(SECRET, "HS256", claims(clock, **moments)), metadata(), clock)).passes


async def test_a_token_ends_when_it_says() -> None:
    clock = HandClock()
    token, given = signed(SECRET, "HS256", claims(clock)), metadata(leeway_seconds=0)
    clock.advance(59.9)
    assert (await judged(token, given, clock)).passes
    clock.advance(0.1)
    assert refused(await judged(token, given, clock))


def _hostile(clock: HandClock) -> dict[str, tuple[str, dict[str, Any]]]:
    good, secret = claims(clock), SECRET.encode()
    public = without_secret(algorithms=["RS256"], public_key=pem(rsa_key()))
    return {
        "no signature": (forged({"alg": "none"}, good), metadata()),
        "no signature, in capitals": (forged({"alg": "NONE"}, good), metadata()),
        "no algorithm": (forged({}, good, secret), metadata()),
        "an algorithm that is no text": (forged({"alg": ["HS256"]}, good, secret), metadata()),
        "another algorithm of the family": (signed(SECRET * 2, "HS512", good), metadata(secret=SECRET * 2)),
        "the public key as a secret": (forged({"alg": "HS256"}, good, pem(rsa_key()).encode()), public),
        "the public key, stripped, as a secret": (
            forged({"alg": "HS256"}, good, pem(rsa_key()).strip().encode()), public,
        ),
        "signed by another": (signed("x" * 40, "HS256", good), metadata()),
        "signed by another RSA key": (signed(rsa.generate_private_key(65537, 2048), "RS256", good), public),
        "critical extensions": (forged({"alg": "HS256", "crit": ["b64"], "b64": True}, good, secret), metadata()),
        "unknown critical extensions": (forged({"alg": "HS256", "crit": ["x"], "x": 1}, good, secret), metadata()),
        "an empty list of critical ones": (forged({"alg": "HS256", "crit": []}, good, secret), metadata()),
        "a detached payload": (forged({"alg": "HS256", "b64": False}, good, secret), metadata()),
        "a header that is a list": (forged(["HS256"], good, secret), metadata()),
        "claims that are a list": (forged({"alg": "HS256"}, [good], secret), metadata()),
        "claims that are no JSON": (forged({"alg": "HS256"}, b"{", secret), metadata()),
        "a claim given twice": (
            forged({"alg": "HS256"}, json.dumps(good)[:-1].encode() + b',"sub":"admin"}', secret), metadata(),
        ),
        "an embedded key": (
            signed(ec_key(), "ES256", good, jwk=jwk(ec_key(), None)), public | {"algorithms": ["RS256"]},
        ),
        "a changed payload": (_changed(signed(SECRET, "HS256", good)), metadata()),
        "two parts": (".".join(signed(SECRET, "HS256", good).split(".")[:2]), metadata()),
        "nothing": ("", metadata()),
        "dots": ("..", metadata()),
        "very long": ("a" * 20_000, metadata()),
        "deep": (forged({"alg": "HS256"}, b'{"a":' * 2000, secret), metadata()),
    }  # fmt: skip


def _changed(token: str) -> str:
    header, payload, signature = token.split(".")
    changed = json.loads(base64.urlsafe_b64decode(payload + "=="))
    return f"{header}.{segment({**changed, 'sub': 'admin'})}.{signature}"


@pytest.mark.parametrize("name", list(_hostile(HandClock())))
async def test_what_only_looks_like_a_token_is_refused(name: str) -> None:
    clock = HandClock()
    token, given = _hostile(clock)[name]
    response = await judged(token, given, clock)
    assert refused(response)
    assert not token or token not in response.message


@pytest.mark.parametrize(
    "headers",
    [{}, {"authorization": "Basic x"}, {"authorization": "Bearer"}, {"x-other": "Bearer x"}],
)
async def test_no_token_is_refused(headers: dict[str, str]) -> None:
    assert refused(await ask(Jwt(HandClock()), metadata(), RequestContext.create(headers=headers)))


async def test_two_tokens_are_refused() -> None:
    clock = HandClock()
    token = f"Bearer {signed(SECRET, 'HS256', claims(clock))}"
    context = RequestContext.create(headers=[("authorization", token), ("Authorization", token)])
    assert refused(await ask(Jwt(clock), metadata(), context))


@pytest.mark.parametrize(
    "given",
    [
        {},
        without_secret(),
        metadata(algorithms=[]),
        metadata(algorithms=["none"]),
        metadata(algorithms=["HS512"]),
        metadata(algorithms=["HS256", "RS256"]),
        metadata(secret="hunter2"),
        metadata(jwks_file="x"),
        metadata(leeway_seconds=301),
        metadata(header="host"),
        without_secret(public_key=pem(rsa_key())),
        without_secret(algorithms=["RS256", "ES256"], public_key=pem(rsa_key())),
        without_secret(algorithms=["RS256"], public_key="hunter2"),
        without_secret(algorithms=["RS256"], public_key=pem(rsa_key(1024))),
        without_secret(algorithms=["ES256"], public_key=pem(ec_key("secp384r1"))),
        without_secret(jwks_url="https://keys.example"),
        without_secret(algorithms=["RS256"], jwks_url="http://keys.example"),
        without_secret(algorithms=["RS256"], jwks_url="file:///etc/passwd"),
        without_secret(algorithms=["RS256"], jwks_url="https://user:hunter2@keys.example"),
        without_secret(algorithms=["RS256"], jwks_file="https://keys.example"),
    ],
)
async def test_metadata_that_make_no_sense_are_refused_without_being_quoted(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as failure:
        await ask(Jwt(HandClock()), given)
    assert "hunter2" not in str(failure.value)

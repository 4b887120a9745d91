"""Where `jwt` has its keys from: a set behind a URL or in a file, and which keys of it serve."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import RSAAlgorithm

from agent_gate.chain.builtin.jwt import Jwt
from agent_gate.chain.policy import StatusCode
from tests.gates import HandClock
from tests.unit.chain.builtin.tokens import (
    SECRET,
    claims,
    ec_key,
    forged,
    judged,
    jwk,
    refused,
    rsa_key,
    segment,
    signed,
    without_secret,
)


class Source:
    """A place that keys come from; it can be down, slow, or turn out others."""

    def __init__(self, *keys: dict[str, Any]) -> None:
        self.keys = list(keys)
        self.fetched = 0
        self.answer: Callable[[], bytes] = lambda: json.dumps({"keys": self.keys}).encode()

    async def __call__(self, url: str) -> bytes:
        self.fetched += 1
        await asyncio.sleep(0)
        return self.answer()

    def goes_down(self) -> None:
        def answer() -> bytes:
            raise httpx2.ConnectError("down")

        self.answer = answer


URL = without_secret(algorithms=["ES256", "RS256"], jwks_url="https://keys.example/jwks")


async def test_keys_behind_a_url_are_fetched_once_and_kept_for_a_while() -> None:
    clock, source = HandClock(), Source(jwk(rsa_key(), "r"), jwk(ec_key(), "e"))
    policy = Jwt(clock, source)
    tokens = [signed(rsa_key(), "RS256", claims(clock), kid="r"), signed(ec_key(), "ES256", claims(clock), kid="e")]
    responses = await asyncio.gather(*(judged(token, URL, clock, policy) for token in tokens * 5))
    assert all(response.passes for response in responses)
    assert source.fetched == 1
    clock.advance(301)
    fresh = signed(ec_key(), "ES256", claims(clock), kid="e")
    assert (await judged(fresh, URL, clock, policy)).passes
    assert source.fetched == 2


async def test_a_key_that_is_not_known_is_looked_for_but_not_too_often() -> None:
    clock, source = HandClock(), Source(jwk(rsa_key(), "old"))
    policy = Jwt(clock, source)
    assert refused(await judged(signed(ec_key(), "ES256", claims(clock), kid="new"), URL, clock, policy))
    for number in range(20):
        stranger = signed(ec_key(), "ES256", claims(clock), kid=f"stranger {number}")
        assert refused(await judged(stranger, URL, clock, policy))
    assert source.fetched == 1
    source.keys.append(jwk(ec_key(), "new"))
    clock.advance(10)
    assert (await judged(signed(ec_key(), "ES256", claims(clock), kid="new"), URL, clock, policy)).passes
    assert source.fetched == 2


async def test_known_keys_serve_on_for_a_while_when_their_source_is_down() -> None:
    clock, source = HandClock(), Source(jwk(rsa_key(), "r"))
    policy = Jwt(clock, source)
    assert (await judged(signed(rsa_key(), "RS256", claims(clock), kid="r"), URL, clock, policy)).passes
    source.goes_down()
    clock.advance(3_000)
    assert (await judged(signed(rsa_key(), "RS256", claims(clock), kid="r"), URL, clock, policy)).passes
    clock.advance(3_000)
    response = await judged(signed(rsa_key(), "RS256", claims(clock), kid="r"), URL, clock, policy)
    assert (response.status, response.passes) == (StatusCode.POLICY_DENIED, False)
    assert response.message == "policy `jwt` failed: the keys that verify tokens cannot be had"


@pytest.mark.parametrize(
    "answer",
    [b"", b"{", b"[]", b'{"keys": {}}', b'{"keys": 7}', b"[" * 100_000, json.dumps({"keys": [{}] * 200}).encode()],
)
async def test_a_key_set_that_is_none_is_as_good_as_none(answer: bytes) -> None:
    clock, source = HandClock(), Source()
    source.answer = lambda: answer
    response = await judged(signed(rsa_key(), "RS256", claims(clock), kid="r"), URL, clock, Jwt(clock, source))
    assert response.status is StatusCode.POLICY_DENIED


def _private(key: Any) -> dict[str, Any]:
    entry: dict[str, Any] = RSAAlgorithm.to_jwk(key, as_dict=True)
    return entry


@pytest.mark.parametrize(
    "entry",
    [
        {**jwk(rsa_key(), "k"), "use": "enc"},
        {**jwk(rsa_key(), "k"), "alg": "RS512"},
        {**jwk(rsa_key(), "k"), "kty": "EC"},
        {**jwk(rsa_key(), "k"), "n": "!"},
        {**jwk(rsa_key(), "k"), "kid": 7},
        {**_private(rsa_key()), "kid": "k"},
        {**jwk(rsa_key(1024), "k")},
        {"kty": "oct", "kid": "k", "k": segment(b"x" * 40)},
        {"kty": "OKP", "kid": "k"},
        {"kid": "k"},
        "k",
        None,
    ],
)
async def test_a_key_that_is_not_for_this_is_left_out(entry: Any) -> None:
    clock = HandClock()
    policy = Jwt(clock, Source(entry, jwk(ec_key(), "good")))
    for token in (
        signed(rsa_key(), "RS256", claims(clock), kid="k"),
        forged({"alg": "HS256", "kid": "k"}, claims(clock), b"x" * 40),
    ):
        assert refused(await judged(token, URL, clock, policy))
    assert (await judged(signed(ec_key(), "ES256", claims(clock), kid="good"), URL, clock, policy)).passes


async def test_a_key_serves_its_own_algorithm_only() -> None:
    clock = HandClock()
    policy = Jwt(clock, Source(jwk(rsa_key(), "k"), jwk(ec_key(), "e")))
    assert refused(await judged(signed(ec_key(), "ES256", claims(clock), kid="k"), URL, clock, policy))


async def test_a_token_without_a_key_id_needs_a_set_with_one_key_for_its_algorithm() -> None:
    clock = HandClock()
    token = signed(ec_key(), "ES256", claims(clock))
    one = Source(jwk(ec_key(), "e"), jwk(rsa_key(), "r"))
    assert (await judged(token, URL, clock, Jwt(clock, one))).passes
    two = Source(jwk(ec_key(), "e"), jwk(ec.generate_private_key(ec.SECP256R1()), "f"))
    assert refused(await judged(token, URL, clock, Jwt(clock, two)))


async def test_keys_in_a_file_are_read_again_when_they_are_old(tmp_path: Path) -> None:
    clock, file = HandClock(), tmp_path / "keys.json"
    secret = b"s" * 32
    file.write_text(json.dumps({"keys": [{"kty": "oct", "kid": "s", "k": segment(secret)}]}))
    policy, given = Jwt(clock), without_secret(jwks_file=str(file))
    assert (await judged(signed(secret, "HS256", claims(clock), kid="s"), given, clock, policy)).passes
    file.write_text(json.dumps({"keys": []}))
    clock.advance(301)
    assert refused(await judged(signed(secret, "HS256", claims(clock), kid="s"), given, clock, policy))


async def test_a_file_that_is_not_there_denies(tmp_path: Path) -> None:
    clock = HandClock()
    given = without_secret(jwks_file=str(tmp_path / "absent.json"))
    response = await judged(signed(SECRET, "HS256", claims(clock), kid="s"), given, clock)
    assert response.status is StatusCode.POLICY_DENIED


async def test_a_file_that_is_too_large_denies(tmp_path: Path) -> None:
    clock, file = HandClock(), tmp_path / "keys.json"
    file.write_text(json.dumps({"keys": [{"kty": "oct", "k": segment(b"s" * 32)}]}) + " " * 300_000)
    given = without_secret(jwks_file=str(file))
    response = await judged(signed(b"s" * 32, "HS256", claims(clock)), given, clock)
    assert response.status is StatusCode.POLICY_DENIED


async def test_sources_of_chains_that_are_no_longer_used_are_forgotten() -> None:
    clock, source = HandClock(), Source(jwk(ec_key(), "e"))
    policy = Jwt(clock, source)
    token = signed(ec_key(), "ES256", claims(clock), kid="e")
    for number in range(70):
        assert (await judged(token, {**URL, "jwks_url": f"https://keys.example/{number}"}, clock, policy)).passes
    assert (await judged(token, {**URL, "jwks_url": "https://keys.example/69"}, clock, policy)).passes
    assert source.fetched == 70
    assert (await judged(token, {**URL, "jwks_url": "https://keys.example/0"}, clock, policy)).passes
    assert source.fetched == 71

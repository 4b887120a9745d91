"""`api_key`: who shows a known key passes, under the name of its owner."""

from __future__ import annotations

import hmac
from hashlib import sha256
from typing import Any

import pytest

from agent_gate.chain.builtin import api_key as module
from agent_gate.chain.builtin.api_key import ApiKey
from agent_gate.chain.context import RequestContext
from agent_gate.chain.faults import InvalidRequest
from agent_gate.chain.headers import Headers
from agent_gate.chain.policy import StatusCode
from tests.unit.chain.builtin.asking import answer_of, ask

KEY, OTHER = "correct-horse-battery", "another-key-of-anna-1"
METADATA = {"keys": [{"id": "kitchen", "key": KEY}, {"id": "anna", "sha256": sha256(OTHER.encode()).hexdigest()}]}


def with_key(*values: str, name: str = "X-API-Key") -> RequestContext:
    return RequestContext.create(headers=[(name, value) for value in values])


@pytest.mark.parametrize(("key", "owner"), [(KEY, "kitchen"), (OTHER, "anna")])
async def test_a_known_key_names_its_owner_and_goes_no_further(key: str, owner: str) -> None:
    response = await ask(ApiKey(), METADATA, with_key(key))
    assert response.passes
    assert response.context.state["identity"] == {"id": owner, "by": "api_key"}
    assert "x-api-key" not in response.context.headers


async def test_a_key_is_forwarded_where_that_is_asked_for() -> None:
    response = await ask(ApiKey(), {**METADATA, "forward": True}, with_key(KEY))
    assert response.context.headers.get("x-api-key") == KEY


@pytest.mark.parametrize(
    "values", [(), ("",), (KEY[:-1],), (KEY + "x",), (KEY.upper(),), (KEY, KEY), (f" {KEY}",), ("ü" * 16,), ("\udcff",)]
)
async def test_any_other_key_is_refused(values: tuple[str, ...]) -> None:
    context = RequestContext(headers=Headers([("x-api-key", value) for value in values]))
    response = await ask(ApiKey(), METADATA, context)
    status, headers, body = answer_of(response)
    assert (response.status, status, headers["www-authenticate"]) == (StatusCode.POLICY_DENIED, 401, "ApiKey")
    assert KEY not in str((response.message, body))
    assert "identity" not in response.context.state


async def test_a_key_with_a_scheme() -> None:
    metadata = {**METADATA, "header": "Authorization", "scheme": "Bearer"}
    assert (await ask(ApiKey(), metadata, with_key(f"bearer {KEY}", name="authorization"))).passes
    assert not (await ask(ApiKey(), metadata, with_key(KEY, name="authorization"))).passes
    assert not (await ask(ApiKey(), metadata, with_key(f"Basic {KEY}", name="authorization"))).passes


@pytest.mark.parametrize("key", [KEY, OTHER, "none of them at all"])
async def test_every_key_is_compared_whichever_fits(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[bytes] = []

    class Noting:
        @staticmethod
        def compare_digest(known: bytes, given: bytes) -> bool:
            compared.append(given)
            return hmac.compare_digest(known, given)

    monkeypatch.setattr(module, "hmac", Noting)
    await ask(ApiKey(), METADATA, with_key(key))
    assert compared == [sha256(key.encode()).digest()] * 2


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"keys": []},
        {"keys": [{"id": "a"}]},
        {"keys": [{"id": "a", "key": "short"}]},
        {"keys": [{"id": "a", "key": KEY, "sha256": "0" * 64}]},
        {"keys": [{"id": "a", "sha256": "0" * 64 + "\n"}]},
        {"keys": [{"id": "", "key": KEY}]},
        {"keys": [{"id": "a", "key": KEY}, {"id": "b", "key": KEY}]},
        {**METADATA, "header": "host"},
        {**METADATA, "header": "a b"},
        {**METADATA, "typo": 1},
    ],
)
async def test_metadata_that_make_no_sense_are_refused_without_being_quoted(metadata: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as failure:
        await ask(ApiKey(), metadata)
    assert KEY not in str(failure.value)

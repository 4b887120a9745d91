"""`secret_scrub`: no known value and no credential leaves in a response, in time linear in its length."""

from __future__ import annotations

import asyncio
import json
import time
from base64 import b64encode
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_gate.chain.builtin.secret_scrub import SecretScrub
from agent_gate.chain.faults import InvalidRequest
from agent_gate.chain.policy import StatusCode
from agent_gate.model.bounds import SCRUB_STRETCH_CHARS
from agent_gate.model.credentials import SHAPES
from tests.unit.chain.builtin.asking import ask
from tests.unit.chain.scripted import a_response

VALUE = 'pass"wörd/+1'
ALL = {"patterns": ["all"], "values": [VALUE]}


async def scrubbed(body: bytes, metadata: Any = ALL, headers: Any = ()) -> bytes:
    response = await ask(SecretScrub(), metadata, a_response(headers, body))
    assert response.passes
    return response.context.body


@pytest.mark.parametrize(
    "spelling",
    [
        VALUE,
        json.dumps(VALUE)[1:-1],
        json.dumps(VALUE, ensure_ascii=False)[1:-1],
        quote(VALUE, safe=""),
        b64encode(VALUE.encode()).decode(),
        VALUE.encode().hex(),
    ],
)
async def test_a_known_value_goes_however_it_is_spelt(spelling: str) -> None:
    assert (await scrubbed(f"a {spelling} b {spelling}".encode())).replace(b"=", b"") == b"a *** b ***"


CREDENTIALS = {
    "anthropic_key": "sk-ant-" + "aB3_-" * 8,
    "aws_access_key": "AKIA" + "A1B2" * 4,
    "bearer": "Bearer " + "a.b~c+d/" * 4 + "==",
    "github_token": "ghp_" + "a1B2" * 9,
    "gitlab_token": "glpat-" + "a1-_" * 5,
    "google_key": "AIza" + "a1-_B" * 7,
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbm5hIn0.c2lnbmF0dXJlc2ln",
    "openai_key": "sk-" + "proj1234" * 4,
    "private_key": "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----",
    "slack_token": "xoxb-" + "1234567890-ab",
    "stripe_key": "sk_live_" + "a1B2" * 6,
}


def test_every_shape_has_an_example() -> None:
    assert set(CREDENTIALS) == set(SHAPES)


def test_every_shape_is_in_the_reference() -> None:
    page = (Path(__file__).parents[4] / "docs" / "reference" / "policies.md").read_text()
    assert [name for name in SHAPES if f"`{name}`" not in page] == []


@pytest.mark.parametrize("name", list(CREDENTIALS))
async def test_a_credential_goes_by_its_shape(name: str) -> None:
    body = f'{{"token": "{CREDENTIALS[name]}", "a": 1}}'.encode()
    assert await scrubbed(body, {"patterns": [name]}) == b'{"token": "***", "a": 1}'


async def test_a_private_key_that_is_cut_off_goes_too() -> None:
    assert await scrubbed(b"a -----BEGIN PRIVATE KEY-----\nMIIEow") == b"a ***"


@pytest.mark.parametrize(
    "text",
    ["task-force-of-many-people-in-a-row", "eyJ is how they begin", "Bearer of news", "AKIA", "skiing", "", "\0\xff"],
)
async def test_plain_text_stays(text: str) -> None:
    assert await scrubbed(text.encode("latin-1")) == text.encode("latin-1")


async def test_headers_are_looked_through_too() -> None:
    headers = [("X-Debug", f"key={VALUE}"), ("Set-Cookie", "a=1"), ("set-cookie", CREDENTIALS["jwt"]), ("b", "ü")]
    response = await ask(SecretScrub(), ALL, a_response(headers))
    assert list(response.context.headers) == [("x-debug", "key=***"), ("b", "ü")]


async def test_a_header_that_cannot_be_set_as_it_is_left_goes_as_a_whole() -> None:
    response = await ask(SecretScrub(), ALL, a_response({"x-debug": f" {VALUE}", "content-length": "123456"}))
    assert list(response.context.headers) == [("content-length", "123456")]


async def test_a_secret_where_no_policy_may_touch_it_stops_the_response() -> None:
    response = await ask(SecretScrub(), ALL, a_response({"proxy-authenticate": VALUE}))
    assert response.status is StatusCode.POLICY_ERROR
    assert VALUE not in response.message


async def test_values_that_overlap_go_together() -> None:
    metadata = {"values": ["abcdef", "defghi", "cdefgh"]}
    assert await scrubbed(b"xabcdefghiyabcdefabcdefz", metadata) == b"x***y***z"


async def test_a_response_that_cannot_be_read_is_denied() -> None:
    response = await ask(SecretScrub(), ALL, a_response({"content-encoding": "gzip"}, b"\x1f\x8b"))
    assert response.status is StatusCode.POLICY_DENIED
    assert (await ask(SecretScrub(), ALL, a_response({"content-encoding": "Identity"}, b"x"))).passes


async def test_other_bytes_stay_as_they_are() -> None:
    body = bytes(range(256)) + VALUE.encode() + bytes(range(256))
    assert await scrubbed(body) == bytes(range(256)) + b"***" + bytes(range(256))


@given(st.lists(st.sampled_from(["secret-1", "secret-12", "t-12345", "-", "e", "secret", "1"]), max_size=30))
def test_no_known_value_is_left(parts: list[str]) -> None:
    values = ["secret-1", "secret-12", "t-12345"]
    redactor = SecretScrub().prepare({"values": values})
    after = redactor.text("".join(parts))
    assert not any(value in after for value in values)


@pytest.mark.parametrize("where", range(-30, 31, 6))
async def test_a_secret_goes_also_where_one_stretch_ends_and_the_next_begins(where: int) -> None:
    secret = b"sk-ant-0123456789abcdefghij"
    before = b" " * (2 * SCRUB_STRETCH_CHARS + where)
    assert await scrubbed(before + secret + b" " + VALUE.encode()) == before + b"*** ***"


async def test_others_go_on_while_a_long_response_is_looked_through() -> None:
    turns = 0
    scrubbing = asyncio.ensure_future(scrubbed(b"eyJ" * 100_000))
    while not scrubbing.done():
        await asyncio.sleep(0)
        turns += 1
    await scrubbing
    assert turns > 5, "on the loop it would take the turns of one policy"


HOSTILE = {
    "beginnings": "sk-ant-" * 40_000,
    "tokens begun": "eyJ" * 100_000,
    "tokens with dots": "eyJaaaaaaaaaa." * 20_000,
    "keys begun": "-----BEGIN RSA PRIVATE KEY-----" * 10_000,
    "almost keys": ("-----BEGIN " + "A" * 40) * 6_000,
    "almost the ends of a key": "-----BEGIN PRIVATE KEY-----" + ("-----END " + "A" * 40) * 6_000,
    "bearers": "bearer " * 40_000,
    "dashes": "-" * 300_000,
}


def _seconds(text: str) -> float:
    redactor = SecretScrub().prepare({"patterns": ["all"], "values": ["aaaaaa", "aaaaaaaaaaaa"]})
    start = time.process_time()
    redactor.text(text)
    return time.process_time() - start


@pytest.mark.parametrize("name", list(HOSTILE))
def test_hostile_texts_do_not_hold_it_up(name: str) -> None:
    """Anything quadratic would take minutes for these; the bound only tells that apart."""
    assert _seconds(HOSTILE[name]) < 10


@pytest.mark.parametrize(
    "metadata", [{}, {"values": []}, {"values": ["short"]}, {"patterns": ["a.*b"]}, {"patterns": []}, {"regex": "a"}]
)
async def test_metadata_that_make_no_sense_are_refused(metadata: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as failure:
        await ask(SecretScrub(), metadata, a_response())
    assert "short" not in str(failure.value).removeprefix("metadata").replace("shorter", "")

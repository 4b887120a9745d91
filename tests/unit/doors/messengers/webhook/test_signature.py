"""Signatures of webhooks: those of the specification, compared as bytes, and nothing else."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_gate.doors.messengers.webhook.signature import Signed, Signer, signed_by
from tests.webhooks import KEY, OTHER_SECRET, SECRET, signature

BODY = b'{"type":"answer"}'
SIGNER = Signer(SECRET)


def test_a_message_is_signed_as_a_library_of_the_specification_signs_it() -> None:
    """Key, message and signature of the reference implementations' own tests."""
    signer = Signer("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    headers = signer.headers("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_what_was_signed_is_genuine_and_nothing_else_is() -> None:
    headers = SIGNER.headers("a", 7, BODY)
    signed = signed_by([headers["webhook-id"]], [headers["webhook-timestamp"]], [headers["webhook-signature"]])
    assert signed is not None
    assert SIGNER.is_genuine(signed, BODY)
    assert not SIGNER.is_genuine(signed, BODY + b" ")
    assert not SIGNER.is_genuine(Signed("b", 7, signed.signatures), BODY)
    assert not SIGNER.is_genuine(Signed("a", 8, signed.signatures), BODY)
    assert not Signer(OTHER_SECRET).is_genuine(signed, BODY)


def test_one_right_signature_among_several_is_enough() -> None:
    """As while a secret is replaced."""
    right = signature(KEY, "a", "7", BODY)
    assert SIGNER.is_genuine(Signed("a", 7, ("v1,AAAA", "v1a,BBBB", right)), BODY)


@pytest.mark.parametrize("wrong", ["", "v1", "v1,", "v2," + base64.b64encode(bytes(32)).decode(), "\udcff", "ü"])
def test_signatures_of_any_shape_are_compared_and_refused(wrong: str) -> None:
    assert not SIGNER.is_genuine(Signed("a", 7, (wrong,)), BODY)


@pytest.mark.parametrize(
    ("ids", "timestamps", "signatures"),
    [
        ([], ["7"], ["v1,A"]),
        (["a"], [], ["v1,A"]),
        (["a"], ["7"], []),
        (["a", "a"], ["7"], ["v1,A"]),
        (["a"], ["7", "7"], ["v1,A"]),
        (["a.b"], ["7"], ["v1,A"]),
        (["a\n"], ["7"], ["v1,A"]),
        (["a"], ["07"], ["v1,A"]),
        (["a"], ["+7"], ["v1,A"]),
        (["a"], ["٧"], ["v1,A"]),
        (["a"], ["7"], [" ".join(["v1,A"] * 9)]),
    ],
)
def test_headers_that_say_it_twice_or_otherwise_say_nothing(
    ids: list[str], timestamps: list[str], signatures: list[str]
) -> None:
    assert signed_by(ids, timestamps, signatures) is None


@given(st.text(max_size=80), st.text(max_size=20), st.text(max_size=200))
def test_whatever_comes_is_read_or_refused(message_id: str, timestamp: str, text: str) -> None:
    signed = signed_by([message_id], [timestamp], [text])
    assert signed is None or not SIGNER.is_genuine(signed, BODY)

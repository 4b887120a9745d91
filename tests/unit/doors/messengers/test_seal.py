"""Answers that nobody else can make, and that are good for one question only."""

from __future__ import annotations

import hmac
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_gate.doors.messengers.seal import SealedAnswer, Seals, Verb, read
from agent_gate.doors.shapes import digest
from agent_gate.model.approval import Question
from tests.unit.doors.messengers.questions import QUESTION, a_question


def keyed(key: bytes, channel: str = "telegram") -> Seals:
    return Seals(lambda data: hmac.digest(key, data, "sha256").hex(), channel)


SEALS = keyed(b"key")
OTHER: dict[str, Any] = {
    "call_id": "01K0000000000000000000000B",
    "args": {"to": "anna@example.test", "text": "ho"},
    "signatures": ("mail.send(x)",),
    "reasons": (),
    "approver_roles": ("admin",),
    "approvers_required": 2,
    "created_at": 1.0,
    "expires_at": 2.0,
    "sensitive": ("to",),
    "run_id": "run",
}


def pressed(verb: Verb, question: Question = QUESTION) -> SealedAnswer:
    found = read(SEALS.sealed(verb, question.call_id, digest(question)).text)
    assert found is not None
    return found


@pytest.mark.parametrize("verb", Verb)
def test_a_button_fits_and_comes_back_as_it_was(verb: Verb) -> None:
    assert len(SEALS.sealed(verb, QUESTION.call_id, digest(QUESTION)).text.encode()) <= 64
    found = pressed(verb)
    assert (found.verb, found.call_id) == (verb, QUESTION.call_id)
    assert SEALS.hold(found, digest(QUESTION))


@pytest.mark.parametrize("name", [field.name for field in fields(Question)])
def test_a_button_is_good_for_exactly_the_question_above_it(name: str) -> None:
    other = a_question(**{name: OTHER.get(name, "other")})
    assert not SEALS.hold(pressed(Verb.ALLOW), digest(other))


def test_the_seal_of_one_verb_is_none_of_another() -> None:
    deny = pressed(Verb.DENY)
    assert not SEALS.hold(SealedAnswer(Verb.ALLOW, deny.call_id, deny.seal), digest(QUESTION))


def test_another_key_makes_other_seals() -> None:
    assert not keyed(b"other key").hold(pressed(Verb.ALLOW), digest(QUESTION))


def test_what_was_sealed_for_one_channel_holds_in_no_other() -> None:
    assert not keyed(b"key", "webhook").hold(pressed(Verb.ALLOW), digest(QUESTION))


def test_what_one_holder_was_given_holds_for_no_other() -> None:
    anna = SEALS.sealed(Verb.ALLOW, QUESTION.call_id, digest(QUESTION), "anna")
    assert SEALS.hold(anna, digest(QUESTION), "anna")
    assert not SEALS.hold(anna, digest(QUESTION), "bob")
    assert not SEALS.hold(anna, digest(QUESTION))


@given(st.text(max_size=80) | st.from_regex(r"[adgx]\.[0-9A-Z]{0,30}\.[0-9a-f]{0,40}", fullmatch=True))
def test_whatever_comes_back_is_read_or_refused(data: str) -> None:
    found = read(data)
    assert found is None or found.text == data
    assert found is None or not SEALS.hold(found, digest(QUESTION))

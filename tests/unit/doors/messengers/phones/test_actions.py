"""Buttons of phones: made by this gate only, each for one verb, one question and one phone."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_gate.doors.messengers.phones.actions import action_of, read, tag_of
from agent_gate.doors.messengers.phones.phones import Phone
from agent_gate.doors.messengers.seal import SealedAnswer, Seals, Verb
from agent_gate.doors.shapes import digest
from agent_gate.model.approval import Question
from tests.gates import ANNA, BOB
from tests.unit.doors.messengers.questions import QUESTION, a_question

PHONE = Phone(ANNA, "mobile_app_pixel")


def hashed(key: bytes) -> Callable[[bytes], str]:
    return lambda value: hmac.digest(key, value, "sha256").hex()


def keyed(key: bytes) -> Seals:
    return Seals(hashed(key), "home_assistant")


SEALS = keyed(b"key")


def pressed(verb: Verb = Verb.ALLOW, seals: Seals = SEALS) -> SealedAnswer:
    found = read(action_of(seals.sealed(verb, QUESTION.call_id, digest(QUESTION), PHONE.holder)))
    assert found is not None
    return found


@pytest.mark.parametrize("verb", [Verb.ALLOW, Verb.DENY])
def test_a_button_holds_for_what_it_was_made_for(verb: Verb) -> None:
    assert pressed(verb).verb is verb
    assert pressed(verb).call_id == QUESTION.call_id
    assert SEALS.hold(pressed(verb), digest(QUESTION), PHONE.holder)


@pytest.mark.parametrize(
    "question",
    [
        a_question(call_id="01K0000000000000000000000B"),
        a_question(nonce="other"),
        a_question(expires_at=QUESTION.expires_at + 1),
        a_question(args={"to": "eve@example.test"}),
        a_question(signatures=("mail.send(eve@example.test, hi)",)),
    ],
)
def test_a_button_holds_for_no_other_question(question: Question) -> None:
    assert not SEALS.hold(pressed(), digest(question), PHONE.holder)


@pytest.mark.parametrize("phone", [Phone(BOB, PHONE.service), Phone(ANNA, "mobile_app_tablet")])
def test_a_button_holds_for_no_other_person_and_no_other_phone(phone: Phone) -> None:
    assert not SEALS.hold(pressed(), digest(QUESTION), phone.holder)


def test_a_button_holds_for_no_other_verb_and_no_other_gate() -> None:
    assert not SEALS.hold(replace(pressed(Verb.DENY), verb=Verb.ALLOW), digest(QUESTION), PHONE.holder)
    assert not SEALS.hold(pressed(seals=keyed(b"another key")), digest(QUESTION), PHONE.holder)


def test_tags_differ_by_call_phone_and_gate() -> None:
    keys = hashed(b"a"), hashed(b"b")
    tags = {tag_of(call, phone, key) for key in keys for call in ("1", "2") for phone in ("a", "b")}
    assert len(tags) == 8


@given(st.text() | st.from_regex(r"AG_(ALLOW|DENY)_[0-9A-Z]{0,70}_[0-9a-f]{30,34}\n?"))
def test_what_has_not_the_shape_of_a_button_is_none(text: str) -> None:
    found = read(text)
    assert found is None or text == f"AG_{found.verb.name}_{found.call_id}_{found.seal}"

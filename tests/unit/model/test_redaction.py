"""The one redactor: what it finds by value, by shape and by name, and what it leaves."""

from __future__ import annotations

import json
import time
from base64 import b64encode
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_gate.model.bounds import ENCODED_SECRETS_MAX
from agent_gate.model.credentials import AUTHORIZATION, SHAPES
from agent_gate.model.redaction import HIDDEN, Redactor
from agent_gate.model.secrecy import output_without_secrets, without_secrets
from agent_gate.model.tool import ToolDeclaration

SECRET = 'pass"wörd/+1'
TOOL = ToolDeclaration("t", input_schema={}, secret=frozenset({"key"}))


def test_a_redactor_that_knows_nothing_leaves_everything_as_it_is() -> None:
    data = {"a": [1, "two", None, True]}
    assert (Redactor().text("Bearer abc"), Redactor().data(data)) == ("Bearer abc", data)


@pytest.mark.parametrize(
    "spelling",
    [
        SECRET,
        json.dumps(SECRET)[1:-1],
        json.dumps(SECRET, ensure_ascii=False)[1:-1],
        repr(SECRET)[1:-1],
        quote(SECRET, safe=""),
        b64encode(SECRET.encode()).decode().rstrip("="),
        SECRET.encode().hex(),
        SECRET.encode().hex().upper(),
        SECRET.encode().decode("latin-1"),
    ],
)
def test_a_tool_that_quotes_a_secret_argument_in_any_spelling_shows_nothing_of_it(spelling: str) -> None:
    assert without_secrets(f"GET /?key={spelling} failed", {"key": SECRET}, TOOL) == f"GET /?key={HIDDEN} failed"
    assert output_without_secrets([spelling], {"key": [SECRET]}, TOOL) == [HIDDEN]


def test_secrets_that_overlap_leave_nothing_of_each_other() -> None:
    assert without_secrets("<abcdef>", {"key": ["abcd", "cdef"]}, TOOL) == f"<{HIDDEN}>"


def test_a_short_secret_hides_only_itself() -> None:
    pin = {"key": "1"}
    assert without_secrets("1, MQ, 31", pin, TOOL) == f"{HIDDEN}, MQ, 3{HIDDEN}"


def test_a_number_that_is_a_secret_goes_and_others_stay() -> None:
    assert Redactor(["4711"]).data({"pin": 4711, "n": 47110, "on": True}) == {"pin": HIDDEN, "n": 47110, "on": True}


def test_values_under_a_name_go_whatever_they_are_at_every_depth() -> None:
    redactor = Redactor(names=("token",))
    assert redactor.data({"Token": 1, "a": [{"TOKEN": {"b": 1}, "b": 1}]}) == {
        "Token": HIDDEN,
        "a": [{"TOKEN": HIDDEN, "b": 1}],
    }


def test_of_an_authorization_the_scheme_stays_in_whatever_case_it_is_written() -> None:
    redactor = Redactor(shapes=[AUTHORIZATION])
    for scheme in ("Bearer", "bEaReR", "BASIC", "basic"):
        assert redactor.text(f"authorization: {scheme} \t abc, x") == f"authorization: {scheme} \t {HIDDEN}, x"
    assert redactor.text("basically, the forbearers") == "basically, the forbearers"


def test_a_bearer_goes_by_its_shape_in_whatever_case_it_is_written() -> None:
    assert Redactor(shapes=[SHAPES["bearer"]]).text("bEARER " + "a1" * 8) == HIDDEN


def test_what_is_hidden_later_is_hidden_from_then_on() -> None:
    redactor = Redactor(["first"], mark="-", chars_min=4)
    redactor.hide("second", "abc")
    assert redactor.text("first second abc") == "- - abc"


@pytest.mark.parametrize("indexed", [True, False])
@given(st.lists(st.sampled_from(["secret-1", "secret-12", "t-12345", "-", "e", "secret", "1", "2-s"]), max_size=30))
def test_no_value_is_left_and_no_other_text_goes(indexed: bool, parts: list[str]) -> None:
    values = ["secret-1", "secret-12", "t-12345"]
    text = "".join(parts)
    after = Redactor(values, indexed=indexed).text(text)
    assert not any(value in after for value in values)
    kept = after.split(HIDDEN)
    at = 0
    for piece in kept:
        at = text.index(piece, at) + len(piece)


def _seconds(secrets: list[str], text: str) -> float:
    start = time.process_time()
    without_secrets(text, {"key": secrets}, TOOL)
    return time.process_time() - start


HOSTILE = {
    "a long one that nearly stands everywhere": (["a" * 500_000 + "b"], "a" * 1_000_000),
    "very many": ([f"{number:05}" for number in range(100_000)], "0123456789" * 100),
    "many that begin alike": (["a" * number for number in range(1, 1_000)], "a" * 20_000),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_secrets_of_an_agent_that_means_harm_do_not_hold_up_the_gate(name: str) -> None:
    """Anything quadratic would take minutes for these; the bound only tells that apart."""
    secrets, text = HOSTILE[name]
    assert _seconds(secrets, text) < 20


def test_of_very_many_secrets_only_the_plain_spellings_are_looked_for() -> None:
    secrets = [f"secret {number}" for number in range(ENCODED_SECRETS_MAX + 1)]
    assert without_secrets("secret 7", {"key": secrets}, TOOL) == HIDDEN
    assert without_secrets("secret%207", {"key": secrets}, TOOL) == "secret%207"

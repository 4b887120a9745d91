"""The six instructions: what cannot be made, and every row of the document's table of context updates (6.1)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_gate.chain.applying import applied
from agent_gate.chain.context import RequestContext
from agent_gate.chain.faults import InstructionError
from agent_gate.chain.instruction import (
    Continue,
    ImmediateResponse,
    Instruction,
    RemoveHeader,
    SetBody,
    SetHeader,
    SetState,
)

BODY_MAX, STATE_MAX = 100, 60


def apply(context: RequestContext, *instructions: Instruction, warnings: list[str] | None = None) -> RequestContext:
    found: list[str] = [] if warnings is None else warnings
    return applied(context, instructions, found, body_bytes_max=BODY_MAX, state_bytes_max=STATE_MAX)


def test_row_set_header_adds_or_updates_and_wants_a_key() -> None:
    context = RequestContext.create(headers=[("X-A", "1"), ("x-a", "2"), ("b", "3")])
    after = apply(context, SetHeader("x-A", "new"), SetHeader("c", "4"))
    assert list(after.headers) == [("x-A", "new"), ("b", "3"), ("c", "4")]
    with pytest.raises(InstructionError, match="empty"):
        SetHeader("", "x")


def test_row_remove_header_deletes_every_value_and_warns_where_there_is_none() -> None:
    context = RequestContext.create(headers=[("X-A", "1"), ("x-a", "2"), ("b", "3")])
    warnings: list[str] = []
    after = apply(context, RemoveHeader("X-a"), RemoveHeader("none"), warnings=warnings)
    assert list(after.headers) == [("b", "3")]
    assert warnings == ["REMOVE_HEADER of `none`, which is not there"]


def test_row_set_body_replaces_within_the_limit() -> None:
    context = RequestContext.create(body=b"old")
    assert apply(context, SetBody(b"x" * BODY_MAX)).body == b"x" * BODY_MAX
    with pytest.raises(InstructionError, match="101 > 100"):
        apply(context, SetBody(b"x" * (BODY_MAX + 1)))
    assert context.body == b"old"


def test_row_set_state_updates_within_the_limit_of_all_values() -> None:
    context = RequestContext.create(state={"a": "x" * 20})
    after = apply(context, SetState("b", [1, {"c": None}]))
    assert dict(after.state) == {"a": "x" * 20, "b": [1, {"c": None}]}
    # One byte for each key, and two for the quotes of each text.
    assert apply(context, SetState("b", "y" * (STATE_MAX - 26))).state["b"] == "y" * 34
    with pytest.raises(InstructionError, match="state size exceeds limit: 61 > 60"):
        apply(context, SetState("b", "y" * (STATE_MAX - 25)))


def test_row_immediate_response_changes_no_context() -> None:
    context = RequestContext.create(headers={"a": "b"})
    assert apply(context, ImmediateResponse(403, {"x": "y"}, b"no")) is context


def test_row_continue_changes_no_context() -> None:
    context = RequestContext.create(headers={"a": "b"})
    assert apply(context, Continue()) is context


def test_an_overflow_restores_the_value_that_was_there() -> None:
    context = RequestContext.create(state={"a": "old"}, headers={"h": "1"}, body=b"old")
    with pytest.raises(InstructionError):
        apply(context, SetHeader("h", "2"), SetBody(b"new"), SetState("a", "y" * 100))
    assert context == RequestContext.create(state={"a": "old"}, headers={"h": "1"}, body=b"old")


def test_too_many_instructions_or_headers_are_refused() -> None:
    with pytest.raises(InstructionError, match="more than 256 instructions"):
        apply(RequestContext(), *[Continue()] * 257)
    full = RequestContext.create(headers=[(f"h{number}", "x") for number in range(256)])
    with pytest.raises(InstructionError, match="headers"):
        apply(full, SetHeader("one-more", "x"))
    assert len(apply(full, SetHeader("h0", "y")).headers) == 256
    with pytest.raises(InstructionError, match="bytes of them"):
        apply(RequestContext(), SetHeader("a", "x" * 200_000))


set_header: Any = SetHeader
set_body: Any = SetBody
set_state: Any = SetState
answer: Any = ImmediateResponse
FRAMING = ["connection", "Content-Length", "HOST", "transfer-encoding", "te", "trailer", "upgrade", "keep-alive"]


@pytest.mark.parametrize(
    "make",
    [
        *[lambda name=name: SetHeader(name, "x") for name in [*FRAMING, ":path", ":status", "a b", "a\r", "ä", "a:"]],
        *[lambda name=name: RemoveHeader(name) for name in [*FRAMING, "", ":authority", "a\n"]],
        *[lambda value=value: SetHeader("a", value) for value in ("x\r\ny: z", "x\0", "\x7f", " x", "x ", "\ud800")],
        *[lambda status=status: ImmediateResponse(status) for status in (0, 99, 100, 199, 600, True, 200.0, "200")],
        lambda: ImmediateResponse(200, {"content-length": "5"}),
        lambda: ImmediateResponse(200, {"a": "x\r\ny: z"}),
        lambda: ImmediateResponse(200, {"": "x"}),
        lambda: answer(200, {}, "text"),
        lambda: set_body("text"),
        lambda: set_body(bytearray(b"x")),
        lambda: SetState("", 1),
        lambda: SetState("k" * 201, 1),
        lambda: SetState("k", object()),
        lambda: SetState("k", float("inf")),
        lambda: SetState("k", 2**60),
        lambda: SetState("k", {1: 2}),
        lambda: SetState("\ud800", 1),
        lambda: set_state(7, 1),
        lambda: set_header(7, "x"),
        lambda: set_header("a", 7),
    ],
)
def test_an_instruction_that_could_not_be_carried_out_cannot_be_made(make: Any) -> None:
    with pytest.raises(InstructionError) as failure:
        make()
    assert "\n" not in str(failure.value)


def test_what_an_instruction_was_made_of_can_be_changed_without_effect() -> None:
    value, headers = {"roles": ["viewer"]}, {"a": "1"}
    state, response = SetState("who", value), ImmediateResponse(200, headers)
    value["roles"].append("admin")
    headers["b"] = "2"
    state.value["roles"].append("admin")
    assert (state.value, response.headers) == ({"roles": ["viewer"]}, (("a", "1"),))


def test_no_instruction_shows_what_it_carries() -> None:
    shown = repr(
        (
            SetHeader("a", "hunter2"),
            SetBody(b"hunter2"),
            SetState("a", "hunter2"),
            ImmediateResponse(200, {}, b"hunter2"),
        )
    )
    assert "hunter2" not in shown


_names = st.sampled_from(["a", "A", "b", "X-Long", "x-long"])
_texts = st.text("xyz", max_size=15)
_instructions = st.one_of(
    st.builds(SetHeader, _names, _texts),
    st.builds(RemoveHeader, _names),
    st.builds(SetBody, st.binary(max_size=120)),
    st.builds(SetState, st.sampled_from("kl"), st.one_of(_texts, st.integers(0, 9), st.lists(_texts, max_size=5))),
    st.just(Continue()),
)


class Model:
    """The rules of the document, by lists and dicts that are copied whole."""

    def __init__(self) -> None:
        self.headers: list[tuple[str, str]] = [("a", "0"), ("b", "0"), ("A", "1")]
        self.body = b"old"
        self.state: dict[str, Any] = {"k": "old"}

    def fits(self) -> bool:
        sizes = sum(len(key) + len(_compact(value)) for key, value in self.state.items())
        return len(self.body) <= BODY_MAX and sizes <= STATE_MAX

    def do(self, instruction: Instruction) -> bool:
        """False where this instruction is too large by itself."""
        match instruction:
            case SetHeader(key, value):
                self.headers = [*self._without(key), (key, value)]
            case RemoveHeader(key):
                self.headers = self._without(key)
            case SetBody(body):
                self.body = body
                return len(body) <= BODY_MAX
            case SetState():
                self.state = {**self.state, instruction.key: instruction.value}
            case _:
                pass
        return True

    def _without(self, key: str) -> list[tuple[str, str]]:
        return [field for field in self.headers if field[0].lower() != key.lower()]


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


@given(st.lists(st.lists(_instructions, max_size=6), max_size=5))
def test_applying_agrees_with_the_model_whatever_policies_ask_for(policies: list[list[Instruction]]) -> None:
    context = RequestContext.create(headers=Model().headers, body=Model().body, state=Model().state)
    model = Model()
    for instructions in policies:
        attempt = Model()
        attempt.headers, attempt.body, attempt.state = list(model.headers), model.body, dict(model.state)
        fitting = all(attempt.do(instruction) for instruction in instructions) and attempt.fits()
        if fitting:
            model = attempt
            context = apply(context, *instructions)
        else:
            with pytest.raises(InstructionError):
                apply(context, *instructions)
        assert sorted(context.headers) == sorted(model.headers)
        assert (context.body, dict(context.state)) == (model.body, model.state)

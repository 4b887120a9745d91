"""Exceptions of `raise_for_status()` say which call failed: its tool, its arguments without secrets, and its id."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest

from agent_gate import Gate, GateError, tool
from agent_gate.model.errors import PolicyDeniedError, StorageError, ToolError
from agent_gate.model.outcome import Outcome
from agent_gate.model.tool import Json
from tests.gates import ALLOW_ALL, a_gate, sender

PIN = "4711-the-pin"


@tool("safe.open", secret=["pin"])
async def unlock(room: str, pin: str) -> None:
    raise ValueError(f"{pin} does not fit")


def raised(outcome: Outcome) -> GateError:
    with pytest.raises(GateError) as caught:
        outcome.raise_for_status()
    return caught.value


async def stored(gate: Gate, outcome: Outcome) -> Outcome:
    found = await gate.result(outcome.call_id)
    assert found is not None
    return found


async def test_an_exception_carries_tool_arguments_and_call_id(tmp_path: Path) -> None:
    async with a_gate(tmp_path, {"rules": [{"pattern": "mail.send(*)", "action": "deny"}]}, sender([])) as gate:
        outcome = await gate.call("mail.send", text="hello")
        for told in (outcome, await stored(gate, outcome)):
            error = raised(told)
            assert type(error) is PolicyDeniedError
            assert (error.call_id, error.tool, error.arguments) == (outcome.call_id, "mail.send", {"text": "hello"})
            assert f"call {outcome.call_id} of mail.send" in "".join(traceback.format_exception(error))


async def test_an_exception_never_holds_a_secret(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOW_ALL, unlock) as gate:
        calls: list[dict[str, Json]] = [{"room": "hall", "pin": PIN}, {"room": 7, "pin": PIN}, {"pin": PIN}]
        outcomes = [await gate.call("safe.open", args) for args in calls]
        outcomes += [await stored(gate, outcome) for outcome in outcomes]
        for outcome in outcomes:
            error = raised(outcome)
            assert isinstance(error, ToolError)
            assert error.tool == "safe.open"
            assert error.call_id == outcome.call_id
            assert "pin" in error.arguments
            assert PIN not in f"{error!r} {error} {error.arguments} {traceback.format_exception(error)}"
        assert [raised(outcome).arguments.get("room") for outcome in outcomes[:3]] == ["hall", 7, None]


async def test_of_a_tool_that_nobody_knows_nothing_but_its_name_is_carried(tmp_path: Path) -> None:
    """Nobody can say which of its arguments are secret."""
    async with a_gate(tmp_path, ALLOW_ALL) as gate:
        error = raised(await gate.call("safe.open", {"pin": PIN}))
        assert (error.code, error.tool, error.arguments) == (2001, "safe.open", {})


async def test_a_call_that_could_not_be_recorded_is_named_too(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOW_ALL, sender([])) as gate:
        await gate.ledger.close()
        error = raised(await gate.call("mail.send", text="hello"))
        assert isinstance(error, StorageError)
        assert error.tool == "mail.send"


def test_what_was_raised_without_a_call_carries_none() -> None:
    error = ToolError("not now")
    assert (error.call_id, error.tool, dict(error.arguments)) == ("", "", {})
    assert not hasattr(raised(Outcome.from_json({"request_id": "r", "call_id": "c", "status": "denied"})), "__notes__")


def test_no_door_answers_with_what_is_for_exceptions_only() -> None:
    told = Outcome.from_json({"request_id": "r", "call_id": "c", "status": "denied"})
    assert told.to_json() == {"request_id": "r", "call_id": "c", "status": "denied"}

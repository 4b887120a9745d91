"""What goes wrong before a call is judged: arguments that grow or cannot be signed, a ledger that cannot be read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_gate import load_policy, tool
from agent_gate.model.bounds import ARGS_BYTES_MAX
from agent_gate.model.call import Agent, CallRequest
from agent_gate.model.errors import GateError, Problem, StorageError, ToolError
from agent_gate.model.outcome import Status
from agent_gate.model.tool import Json
from agent_gate.pipeline.admit import Admitted, Rejected
from agent_gate.policy.judge import Judge
from agent_gate.ports.tools import Binding, Prepared
from agent_gate.services.registry import ToolRegistry
from tests.gates import ALLOW_ALL, a_gate, code_of, entries, reader


def numbers(count: int) -> dict[str, Json]:
    """Five bytes each as they are written by hand, and 22 in the canonical form."""
    return {"text": "x", "numbers": [1e20] * count}


@pytest.mark.parametrize("is_plain", [True, False], ids=["read by a door", "given in process"])
async def test_arguments_that_grow_past_the_bound_in_their_canonical_form_are_not_admitted(
    tmp_path: Path, is_plain: bool
) -> None:
    fits = ARGS_BYTES_MAX // 22 - 10
    assert 5 * (fits + 100) < ARGS_BYTES_MAX // 2
    async with a_gate(tmp_path, ALLOW_ALL, reader([])) as gate:
        admission, agent = gate.stages.admission, Agent("bot")
        small = await admission.admit(CallRequest(agent, "note.read", numbers(fits), is_plain=is_plain), "1")
        large = await admission.admit(CallRequest(agent, "note.read", numbers(fits + 100), is_plain=is_plain), "2")
    assert isinstance(small, Admitted)
    assert isinstance(large, Rejected)
    assert (large.problem.code, large.problem.stage) == (2002, "admit")
    assert str(ARGS_BYTES_MAX) in large.problem.detail


@pytest.mark.parametrize("over", [0, 1])
async def test_the_bound_itself_is_still_admitted(tmp_path: Path, over: int) -> None:
    args = {"text": "x" * (ARGS_BYTES_MAX - len('{"text":""}') + over)}
    async with a_gate(tmp_path, ALLOW_ALL, reader([])) as gate:
        found = await gate.stages.admission.admit(CallRequest(Agent("bot"), "note.read", args, is_plain=True), "1")
    assert isinstance(found, Rejected if over else Admitted)


@pytest.mark.parametrize("room", ["a b", "a(b", "", "x" * 300, "a\n"])
async def test_a_registered_tool_whose_argument_cannot_be_signed_is_refused_at_bind_and_not_performed(
    tmp_path: Path, room: str
) -> None:
    acts: list[str] = []

    @tool("lamp.switch", effect="write", identifiers=["room"])
    async def switch(room: str) -> None:
        acts.append(room)

    async with a_gate(tmp_path, ALLOW_ALL, switch) as gate:
        outcome = await gate.call("lamp.switch", room=room)
        assert (outcome.status, code_of(outcome), acts) == (Status.ERROR, 2002, [])
        assert outcome.error is not None
        assert outcome.error.stage == "bind"
        assert entries(gate, "performing") == []
        assert (await gate.call("lamp.switch", room="hall")).ok
    assert acts == ["hall"]


class Holding:
    """A tool that holds something from bind on, and must be told to let it go."""

    def __init__(self) -> None:
        self.held = 0

    async def bind(self, *_: Any) -> Binding:
        self.held += 1
        return Binding(("t()",), release=self._release)

    def _release(self) -> None:
        self.held -= 1


LOOKING: dict[str, Mapping[str, Any]] = {
    "state": {**ALLOW_ALL, "rules": [{"pattern": "*", "action": "allow", "when": "get(state, 'x', 1) == 1"}]},
    "used": {**ALLOW_ALL, "limits": {"rate": {"per_minute": 9}}},
    "denied_since": {**ALLOW_ALL, "cooldown_seconds": 60},
}
"""Each read of the ledger that binding may need, and a policy that needs it."""
UNREADABLE = StorageError("the disk does not answer", code=5003)
OF_THE_CALL = ToolError("too many of them", code=2002)


@pytest.mark.parametrize("failing", [UNREADABLE, OF_THE_CALL], ids=["of the storage", "of the call"])
@pytest.mark.parametrize("read", LOOKING)
async def test_a_read_of_the_ledger_that_fails_inside_bind_lets_go_of_what_was_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: str, failing: GateError
) -> None:
    """And only what is a matter of the call is said of the call: the storage's trouble is told as its own."""

    async def fail(*_: Any) -> Any:
        raise failing

    holding = Holding()
    async with a_gate(tmp_path, LOOKING[read], reader([])) as gate:
        known = gate.tools.find("note.read")
        assert known is not None
        binder = gate.stages.binder.with_tools(ToolRegistry([replace(known, bind=holding.bind)]))
        request = CallRequest(Agent("bot"), "note.read", {})
        judge = Judge(load_policy(LOOKING[read]))
        found = await binder.bind(request, {}, "call-1", judge)
        assert isinstance(found, Prepared)
        assert holding.held == 1
        monkeypatch.setattr(gate.ledger, read, fail)
        if failing is UNREADABLE:
            with pytest.raises(StorageError) as raised:
                await binder.bind(request, {}, "call-2", judge)
            assert raised.value is UNREADABLE
        else:
            refused = await binder.bind(request, {}, "call-2", judge)
            assert isinstance(refused, Problem)
            assert (refused.code, refused.stage) == (2002, "bind")
        assert holding.held == 1


@pytest.mark.parametrize("read", LOOKING)
async def test_a_call_whose_bind_cannot_read_the_ledger_is_an_error_of_the_storage_and_not_performed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: str
) -> None:
    async def fail(*_: Any) -> Any:
        raise UNREADABLE

    acts: list[str] = []
    async with a_gate(tmp_path, LOOKING[read], reader(acts)) as gate:
        with monkeypatch.context() as broken:
            broken.setattr(gate.ledger, read, fail)
            outcome = await gate.call("note.read")
        assert (outcome.status, code_of(outcome), acts) == (Status.ERROR, 5003, [])
        assert (await gate.call("note.read")).ok

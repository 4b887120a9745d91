"""Tools that bring how they are judged: intent, reach, guards without sections, and services of two methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from agent_gate.model.approval import GrantTerms
from agent_gate.model.errors import GateError
from agent_gate.model.outcome import Status
from agent_gate.model.tool import Effect, Json, Risk, ToolDeclaration
from agent_gate.toolkit import GuardedBy, Reach, deny, tool
from tests.gates import ALLOW_ALL, ANNA, ASK_ALL, a_gate, code_of, kinds_of, pending


def look(**brought: Any) -> Any:
    @tool("sky.look", effect="read", risk="low", cost=0, **brought)
    async def look_up(at: str) -> str:
        return f"{at}: blue"

    return look_up


async def test_a_read_that_asks_for_it_is_told_before_it_happens(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOW_ALL, look()) as gate:
        plain = await gate.call("sky.look", at="noon")
        assert kinds_of(gate, plain.call_id) == ["settled"]
    async with a_gate(tmp_path, ALLOW_ALL, look(intent=True), name="other.db") as gate:
        told = await gate.call("sky.look", at="noon")
        assert kinds_of(gate, told.call_id) == ["performing", "settled"]


async def test_a_call_that_reaches_what_nobody_can_know_has_a_high_risk(tmp_path: Path) -> None:
    far = Reach(goes_beyond=lambda signature: signature == "sky.look(midnight)")
    async with a_gate(tmp_path, ALLOW_ALL, look(reach=far)) as gate:
        near, beyond = await gate.call("sky.look", at="noon"), await gate.call("sky.look", at="midnight")
    assert (near.status, code_of(beyond)) == (Status.SUCCESS, 1009)


async def test_nobody_can_agree_beforehand_where_the_tool_says_why(tmp_path: Path) -> None:
    never = Reach(why_ungranted=lambda _: "the sky changes")
    async with a_gate(tmp_path, ASK_ALL, look(reach=never)) as gate:
        question = await pending(gate, "sky.look", {"at": "noon"})
        with pytest.raises(GateError, match="the sky changes"):
            await gate.answer(question.call_id, approve=True, by=ANNA, nonce=question.nonce, grant=GrantTerms())


async def test_a_guard_may_do_without_a_section(tmp_path: Path) -> None:
    def guard(bound: Any, _: Any) -> Any:
        return deny("guard", 1001, "the shutters are down")

    async with a_gate(tmp_path, ALLOW_ALL, look(guard=GuardedBy(lambda _, __: guard))) as gate:
        refused = await gate.call("sky.look", at="noon")
    assert refused.error is not None
    assert (refused.status, refused.error.detail) == (Status.DENIED, "the shutters are down")


class Mixed:
    """Two methods, and tools of both kinds."""

    def tools(self) -> Sequence[Any]:
        return [ToolDeclaration("mixed.add", effect=Effect.WRITE, risk=Risk.LOW), look()]

    async def execute(self, tool_name: str, args: Mapping[str, Json]) -> Json:
        return [tool_name, dict(args)]


async def test_a_service_has_two_methods_and_its_tools_are_declarations_or_functions(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOW_ALL, services=[Mixed()]) as gate:
        added = await gate.call("mixed.add", n=1)
        looked = await gate.call("sky.look", at="noon")
        services = {registered.declaration.name: registered.service for registered in gate.tools.all()}
    assert (added.data, looked.data) == (["mixed.add", {"n": 1}], "noon: blue")
    assert (services["mixed.add"], services["sky.look"]) == ("mixed", "mixed")

"""Where layers lie: outside of what a command may write, tried before it is trusted, and nothing of them stays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agent_gate.model.errors import ToolError
from agent_gate.sandbox import scratch
from agent_gate.sandbox.command import Command, View
from agent_gate.sandbox.scratch import ScratchPlaces


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    monkeypatch.setattr(scratch, "candidates", lambda: iter((str(first), str(second))))
    return str(first), str(second)


async def nothing_written(_: tuple[str, ...], view: View, ready: Callable[[Command], Command]) -> str:
    return ""


async def test_a_place_where_layers_do_not_tell_what_was_written_is_not_taken(places: tuple[str, str]) -> None:
    with pytest.raises(ToolError, match=f"{places[0]}: does not tell what was written") as failed:
        await ScratchPlaces(nothing_written).pick(())
    assert (failed.value.code, "writes: direct" in failed.value.problem.suggestion) == (2006, True)


async def test_a_place_that_the_command_may_write_is_passed_over(
    places: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def works(*_: object) -> str:
        return ""

    monkeypatch.setattr(scratch, "try_layers", works)
    picker = ScratchPlaces(nothing_written)
    assert await picker.pick(()) == places[0]
    assert await picker.pick((places[0],)) == places[1]
    assert await picker.pick((f"{places[0]}/below",)) == places[0]
    with pytest.raises(ToolError, match="lies in what the command may write"):
        await picker.pick(("/",))

"""Where layers lie: outside of what a command may write, tried before it is trusted, gone with whoever made them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_gate.model.errors import ToolError
from agent_gate.sandbox import scratch
from agent_gate.sandbox.command import Command, View
from agent_gate.sandbox.scratch import Scratch, ScratchDirectory, remove_abandoned, remove_tree


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
        await Scratch(nothing_written).pick(())
    assert (failed.value.code, "writes: direct" in failed.value.problem.suggestion) == (2006, True)


async def test_a_place_that_the_command_may_write_is_passed_over(
    places: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def works(*_: object) -> str:
        return ""

    monkeypatch.setattr(scratch, "try_layers", works)
    picker = Scratch(nothing_written)
    assert await picker.pick(()) == places[0]
    assert await picker.pick((places[0],)) == places[1]
    assert await picker.pick((f"{places[0]}/below",)) == places[0]
    with pytest.raises(ToolError, match="lies in what the command may write"):
        await picker.pick(("/",))


def test_what_a_killed_process_left_is_removed_and_what_is_in_use_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used, left = ScratchDirectory(str(tmp_path)), ScratchDirectory(str(tmp_path))
    os.close(left._lock)  # as the end of its process would
    (tmp_path / "agent-gate-other").mkdir()
    remove_abandoned(str(tmp_path))
    assert os.path.exists(left.path), "it may have been made just now"
    monkeypatch.setattr(scratch, "_YOUNG_S", -1.0)
    remove_abandoned(str(tmp_path))
    assert sorted(os.listdir(tmp_path)) == sorted([os.path.basename(used.path), "agent-gate-other"])
    used.remove()
    assert os.listdir(tmp_path) == ["agent-gate-other"]


def test_a_tree_deeper_than_a_path_can_say_is_removed(tmp_path: Path) -> None:
    top = tmp_path / "top"
    top.mkdir()
    number = os.open(top, os.O_RDONLY)
    for _ in range(3_000):
        os.mkdir("deep", 0o700, dir_fd=number)
        deeper = os.open("deep", os.O_RDONLY, dir_fd=number)
        os.close(number)
        number = deeper
    os.close(number)
    (top / "closed").mkdir(mode=0o000)
    remove_tree(str(top))
    assert not top.exists()

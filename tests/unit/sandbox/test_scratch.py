"""Where layers lie: outside of what a command may write, tried before it is trusted, and nothing of them stays."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_gate.model.errors import ToolError
from agent_gate.sandbox import scratch
from agent_gate.sandbox.command import Command, View
from agent_gate.sandbox.scratch import Scratch, name_for, remove, remove_left


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
    remove(str(top))
    assert not top.exists()


AS_A_USER = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
"""Root may go wherever it likes, and nobody else may."""


@pytest.mark.skipif(os.geteuid() == 0 and not shutil.which("setpriv"), reason="root, and no setpriv")
def test_directories_that_are_closed_to_their_owner_go_and_links_are_not_followed(tmp_path: Path) -> None:
    outside, scratch = tmp_path / "outside", tmp_path / "scratch"
    outside.mkdir(mode=0o500)
    (scratch / "0" / "work" / "work").mkdir(parents=True)
    (scratch / "0" / "work" / "link").symlink_to(outside)
    (scratch / "0" / "work" / "work").chmod(0)
    program = "import sys; from agent_gate.sandbox.scratch import remove; remove(sys.argv[1])"
    subprocess.run([*AS_A_USER, sys.executable, "-c", program, str(scratch)], check=True)
    assert (scratch.exists(), outside.stat().st_mode & 0o777) == (False, 0o500)


def test_layers_of_a_process_that_is_gone_are_removed_by_the_name_of_their_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    for name in (f"{name_for('one')}x", f"{name_for('two')}y"):
        (tmp_path / name / "0").mkdir(parents=True)
    remove_left("one")
    assert os.listdir(tmp_path) == [f"{name_for('two')}y"]

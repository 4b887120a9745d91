"""Layers that grow while a command runs: their bytes and their number have bounds."""

from __future__ import annotations

from itertools import chain, repeat
from pathlib import Path

import pytest

from agent_gate.model.errors import ToolError
from agent_gate.sandbox.growth import Growth, free_bytes


def looked_at_closely(scratch: Path, bytes_max: int) -> Growth:
    """As where the disk has lost all of its room since."""
    room = chain([free_bytes(str(scratch))], repeat(0))
    return Growth(str(scratch), bytes_max, over_bytes=0, free=lambda _: next(room))


def test_more_bytes_than_the_bound_end_a_command(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "large").write_bytes(b"x" * 100_000)
    looked_at_closely(tmp_path, 1_000_000).check()
    with pytest.raises(ToolError, match="more than max_changed_bytes") as ended:
        looked_at_closely(tmp_path, 50_000).check()
    assert ended.value.code == 2005


def test_empty_files_count_too(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / str(number)).touch()
    with pytest.raises(ToolError, match="more than max_changed_bytes"):
        looked_at_closely(tmp_path, 50_000).check()


def test_while_the_disk_has_its_room_nothing_is_looked_at(tmp_path: Path) -> None:
    Growth(str(tmp_path), 1_000_000, taken=lambda *_: pytest.fail("a walk that nothing calls for")).check()

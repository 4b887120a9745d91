"""Layers that grow while a command runs: their bytes and their number have bounds."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_gate.model.errors import ToolError
from agent_gate.sandbox import growth
from agent_gate.sandbox.growth import Growth


def looked_at_closely(scratch: Path, bytes_max: int, monkeypatch: pytest.MonkeyPatch) -> Growth:
    """As where the disk has lost all of its room since."""
    monkeypatch.setattr(growth, "OVER_BYTES", 0)
    watched = Growth(str(scratch), bytes_max)
    monkeypatch.setattr(growth, "_free", lambda _: 0)
    return watched


def test_more_bytes_than_the_bound_end_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "large").write_bytes(b"x" * 100_000)
    looked_at_closely(tmp_path, 1_000_000, monkeypatch).check()
    monkeypatch.undo()
    with pytest.raises(ToolError, match="more than max_changed_bytes") as ended:
        looked_at_closely(tmp_path, 50_000, monkeypatch).check()
    assert ended.value.code == 2005


def test_empty_files_count_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        (tmp_path / str(number)).touch()
    with pytest.raises(ToolError, match="more than max_changed_bytes"):
        looked_at_closely(tmp_path, 50_000, monkeypatch).check()


def test_while_the_disk_has_its_room_nothing_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growth, "_taken", lambda *_: pytest.fail("a walk that nothing calls for"))
    Growth(str(tmp_path), 1_000_000).check()

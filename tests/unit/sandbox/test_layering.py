"""Layers above what a command may write: where they can lie, and where not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agent_gate.model.errors import ToolError
from agent_gate.sandbox.command import Access, Place, View
from agent_gate.sandbox.layering import in_layers
from tests.unit.sandbox.commands import made


def test_a_mount_point_below_a_writable_directory_is_named_with_the_remedy(tmp_path: Path) -> None:
    with made(["true"]) as command:
        writing = replace(command, view=View((Place("/", Access.WRITE, True),)))
        with pytest.raises(ToolError, match=r"is a mount point below what the command may write") as failed:
            in_layers(writing, str(tmp_path))
    assert failed.value.code == 2006
    assert "writes: direct" in failed.value.problem.suggestion


def test_a_directory_without_one_gets_a_layer(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    with made(["true"]) as command:
        writing = replace(command, view=View((Place(f"{tmp_path}/work", Access.WRITE, True),)))
        assert list(in_layers(writing, str(tmp_path)).layers) == [f"{tmp_path}/work"]

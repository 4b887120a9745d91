"""Directories for layers: held while their process lives, and cleared away after it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from agent_gate.resolve.scratch import PREFIX, Scratch, clear_left_behind

KILLED = """
import os, signal, sys
from agent_gate.resolve.scratch import Scratch
os.mkdir(f"{Scratch(sys.argv[1]).path}/0")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_left_is_cleared_away_and_what_is_in_use_stays(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], timeout=60, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert len(os.listdir(tmp_path)) == 1
    used = Scratch(str(tmp_path))
    clear_left_behind(str(tmp_path))
    assert os.listdir(tmp_path) == [os.path.basename(used.path)]
    used.remove()
    assert os.listdir(tmp_path) == []


def test_no_link_is_followed_and_nothing_else_is_cleared_away(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").touch()
    (tmp_path / f"{PREFIX}link").symlink_to(kept)
    (tmp_path / "agent-gate-other").mkdir()
    clear_left_behind(str(tmp_path))
    assert sorted(os.listdir(tmp_path)) == [f"{PREFIX}link", "agent-gate-other", "kept"]
    assert os.listdir(kept) == ["file"]

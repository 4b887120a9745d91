"""Where the layers of commands lie: nothing of them stays, whoever runs the gate."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agent_gate.sandbox.scratch import name_for, remove_left

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

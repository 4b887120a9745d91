"""The walk of one call, which the architecture page pictures, is made by a script that runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "docs/walk.py"
STAGES = ("admit", "bind", "decide", "perform", "settle")
"""In their order; nobody is asked about an allowed call."""


def test_the_walk_of_a_call_passes_the_stages_in_order() -> None:
    done = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    files = [line.split()[0] for line in done.stdout.splitlines() if line and not line.startswith(" ")]
    first_met = [files.index(f"pipeline/{stage}.py") for stage in STAGES]
    assert first_met == sorted(first_met)
    assert "ledger/sqlite/writer.py" in files
    assert re.fullmatch(r"\d+ functions in \d+ files", done.stdout.splitlines()[-1])

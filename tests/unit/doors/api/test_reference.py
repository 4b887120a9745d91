"""The reference of the HTTP API is what the API declares."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[4]


def test_the_reference_says_what_the_api_declares() -> None:
    program = ROOT / "docs" / "reference" / "http_api.py"
    page = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True).stdout
    stored = (ROOT / "docs" / "reference" / "http.md").read_text()
    assert page == stored, "run: python docs/reference/http_api.py > docs/reference/http.md"

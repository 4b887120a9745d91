"""With real names, real sockets and a canary on every inner address, no URL and no redirect reaches one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMESPACE = ["unshare", "--net", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]


def can_have_a_namespace() -> bool:
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        return False
    try_it = [*NAMESPACE, "ip", "link", "set", "lo", "up"]
    return subprocess.run(try_it, capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not can_have_a_namespace(), reason="no network namespace to be had here")
def test_no_url_and_no_redirect_reaches_a_canary(tmp_path: Path) -> None:
    done = subprocess.run(
        [*NAMESPACE, sys.executable, "-m", "tests.faults.canaries", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert told.pop("redirects met") > 20
    assert told == {
        "friend": "success",
        "let through": [],
        "let through by redirect": [],
        "let through while turning": [],
        "canary": [],
        "canary where it is allowed": ["127.0.0.1", "::1", "169.254.169.254"],
    }

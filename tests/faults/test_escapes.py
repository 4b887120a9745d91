"""Every way out of a sandbox that we know of, tried by whoever the gate may run as, in each that `auto` may pick."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from agent_gate.sandbox.choice import Offer, probe
from tests.faults.escaping import Ground

ROOT = Path(__file__).resolve().parents[2]
NOBODY = 65_534
REACHED = 42
COMPILER = shutil.which("cc") or shutil.which("gcc")
RECORDED = (["performing", "settled"], ["performing", "committing", "settled"])
"""The second of a command whose writes were committed."""
ENDED_FROM_OUTSIDE = {"too much memory", "too much shared memory", "surviving the timeout"}
"""Attempts that may be stopped by ending the command, not by refusing it something."""


@pytest.fixture(scope="session")
def escape() -> Iterator[Path]:
    """The program that tries; static, so that nothing but the sandbox can keep it from starting."""
    if COMPILER is None:
        pytest.skip("no C compiler to build the attempts with")
    # Not in pytest's own directory, which only its user may enter.
    with tempfile.TemporaryDirectory(prefix="escape-") as folder:
        Path(folder).chmod(0o755)
        program = Path(folder) / "escape"
        subprocess.run([COMPILER, "-O1", "-static", "-o", program, Path(__file__).with_name("escape.c")], check=True)
        yield program


def _offer(name: str) -> Offer:
    return next(offer for offer in asyncio.run(probe()) if offer.name == name)


def _attempt(sandbox: str, program: Path, *, as_nobody: bool) -> dict[str, Any]:
    if importlib.util.find_spec("sandlock") is None and sandbox == "sandlock":
        pytest.skip("sandlock is not installed")
    offer = _offer(sandbox)
    if not offer.works:
        pytest.skip(f"this machine has no {sandbox}: {offer.found}")
    who: dict[str, Any] = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if as_nobody else {}
    paths = (ROOT, ROOT / "src", sysconfig.get_path("purelib"))
    done = subprocess.run(
        [_interpreter(as_nobody), "-B", "-m", "tests.faults.escaping", sandbox, program],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(map(str, paths))},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        **who,
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def _interpreter(as_nobody: bool) -> str:
    """One that the user may start; ours may lie in somebody's home."""
    if not as_nobody:
        return sys.executable
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for candidate in (os.path.realpath(sys.executable), f"/usr/bin/{version}", f"/usr/local/bin/{version}"):
        folders = [*Path(candidate).parents]
        if Path(candidate).exists() and all(folder.stat().st_mode & 0o001 for folder in folders):
            return candidate
    pytest.skip("no interpreter that an ordinary user may start")


@pytest.mark.parametrize("sandbox", ["bubblewrap", "sandlock"])
@pytest.mark.parametrize("as_nobody", [False, True], ids=["as the tests' user", "as an ordinary user"])
def test_nothing_leads_out_and_every_attempt_is_recorded(sandbox: str, as_nobody: bool, escape: Path) -> None:
    if as_nobody and os.geteuid() != 0:
        pytest.skip("the tests run as an ordinary user already")
    told = _attempt(sandbox, escape, as_nobody=as_nobody)
    results: dict[str, Any] = told["results"]
    assert results.pop("left behind") == []
    assert (told["unchanged"], told["sleeper_alive"]) == (True, True)
    unrecorded = [name for name, result in results.items() if result["entries"] not in RECORDED]
    assert unrecorded == []
    controls = {name: result["data"] for name, result in results.items() if name.startswith("control: ")}
    assert [name for name, data in controls.items() if data["return_code"] != REACHED] == []
    attempts = {name: result for name, result in results.items() if name not in controls}
    assert len(attempts) > 60
    assert {name: result for name, result in attempts.items() if not _was_held(name, result)} == {}


def _was_held(name: str, result: dict[str, Any]) -> bool:
    # What an attempt leaves in the layer, such as a link that leads out, is refused besides.
    if result["status"] == "success" or (result["status"] == "denied" and "data" in result):
        code = result["data"]["return_code"]
        return code == 0 or (name in ENDED_FROM_OUTSIDE and code == 128 + 9)
    return name in ENDED_FROM_OUTSIDE and result["error"]["code"] in (2003, 2004)


@pytest.mark.parametrize("sandbox", ["bubblewrap", "sandlock"])
def test_a_gate_that_is_killed_takes_its_commands_with_it(sandbox: str, escape: Path) -> None:
    if not _offer(sandbox).works:
        pytest.skip(f"this machine has no {sandbox}")
    words = [sys.executable, "-B", "-m", "tests.faults.escaping", "orphan", sandbox, str(escape)]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as gate:
        assert gate.stdout is not None
        mark = gate.stdout.readline().decode().strip()
        # The command and the child that it left behind: then it has long begun.
        _wait_for(lambda: len(_processes(mark, "escape")) == 2)
        gate.kill()
    _wait_for(lambda: not _processes(mark))
    shutil.rmtree(Path(mark).parents[2], ignore_errors=True)


def _processes(mark: str, name: str = "") -> list[int]:
    """Those whose words hold this mark, and which have this name."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
            if mark in words and (not name or Path(words[0]).name == name):
                found.append(int(folder.name))
    return found


def _wait_for(holds: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_every_attempt_is_one_that_the_program_knows(escape: Path, tmp_path: Path) -> None:
    """Outside of any sandbox: a misspelt attempt would pass for a refused one."""
    source = Path(__file__).with_name("escape.c").read_text()
    names = {words[0] for words in Ground.sketch().values()}
    assert {name for name in names if f'is(name, "{name}")' not in source} == set()
    done = subprocess.run([escape, "no such attempt"], capture_output=True, check=False)
    assert done.returncode == 2

"""The programs that people let agents run, each for real: what they write is committed, and nothing else."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from agent_gate import Gate, Outcome
from agent_gate.model.outcome import Status
from agent_gate.sandbox.choice import Choice
from tests.gates import a_gate, code_of

PYTHON = os.path.realpath(sys.executable)
BASE = os.path.realpath(sys.base_prefix)
_picked = asyncio.run(Choice().pick("auto"))
pytestmark = pytest.mark.skipif(
    _picked is None or not _picked.layers, reason="no sandbox of this machine keeps apart what a command writes"
)


def policy_of(*programs: str, read: tuple[str, ...] = (), write: tuple[str, ...] = (), **shell: Any) -> dict[str, Any]:
    return {
        "tools": {
            "fs.read": {"allow_paths": ["./**", *read]},
            "fs.write": {"allow_paths": ["./**", *write]},
            "shell.run": {"allow_executables": list(programs), "unchecked_executables": list(programs), **shell},
        }
    }


@pytest.fixture
def work(tmp_path: Path) -> Path:
    work = tmp_path.resolve() / "work"
    work.mkdir()
    return work


async def ran(gate: Gate, *argv: str, **args: Any) -> Outcome:
    outcome = await gate.call("shell.run", {"argv": list(argv), **args})
    assert outcome.status is Status.SUCCESS, (outcome.error, outcome.files)
    assert outcome.data["return_code"] == 0, outcome.data
    return outcome


def changed(outcome: Outcome, work: Path) -> dict[str, str]:
    return {os.path.relpath(file["path"], work): file["change"] for file in outcome.files or ()}


async def test_pytest_leaves_no_cache_and_what_a_test_writes(work: Path) -> None:
    (work / "test_it.py").write_text("def test_it():\n    open('result.txt', 'w').write('ok')\n")
    packages = sysconfig.get_paths()["purelib"]
    policy = policy_of(
        os.path.basename(PYTHON),
        read=(f"{packages}/**", f"{sys.base_prefix}/**"),
        trusted_dirs=[os.path.dirname(PYTHON)],
        allow_env=["PYTHONPATH", "PYTEST_DISABLE_PLUGIN_AUTOLOAD"],
    )
    async with a_gate(work.parent, policy, working_dir=work) as gate:
        words = (os.path.basename(PYTHON), "-m", "pytest", "-q", "test_it.py")
        outcome = await ran(gate, *words, env={"PYTHONPATH": packages, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"})
    assert "1 passed" in outcome.data["stdout"]
    assert changed(outcome, work) == {"result.txt": "added"}
    assert sorted(path.name for path in os.scandir(work)) == ["result.txt", "test_it.py"]


async def test_pytest_of_a_virtual_environment_runs_as_the_script_that_it_is(work: Path) -> None:
    (work / "test_it.py").write_text("def test_it():\n    assert True\n")
    paths = sysconfig.get_paths()
    policy = policy_of(
        "pytest",
        read=(f"{sys.prefix}/**", f"{BASE}/**"),
        trusted_dirs=[paths["scripts"], "/usr/bin"],
        allow_env=["PYTEST_DISABLE_PLUGIN_AUTOLOAD"],
    )
    async with a_gate(work.parent, policy, working_dir=work) as gate:
        outcome = await ran(gate, "pytest", "-q", "test_it.py", env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"})
    assert "1 passed" in outcome.data["stdout"]


@pytest.mark.skipif(shutil.which("make", path="/usr/bin") is None, reason="no make")
async def test_make_builds_and_builds_only_what_is_older(work: Path) -> None:
    (work / "Makefile").write_text("out.txt: in.txt\n\tcat in.txt > out.txt\n\techo built >> log.txt\n")
    (work / "in.txt").write_text("one\n")
    async with a_gate(work.parent, policy_of("make"), working_dir=work) as gate:
        first = await ran(gate, "make")
        again = await ran(gate, "make")
        assert (changed(first, work), changed(again, work)) == ({"log.txt": "added", "out.txt": "added"}, {})
        (work / "in.txt").write_text("two\n")
        third = await ran(gate, "make")
    assert changed(third, work) == {"log.txt": "changed", "out.txt": "changed"}
    assert ((work / "out.txt").read_text(), (work / "log.txt").read_text()) == ("two\n", "built\nbuilt\n")


@pytest.mark.skipif(shutil.which("npm", path="/usr/bin") is None, reason="no npm")
async def test_npm_builds_a_small_project(work: Path) -> None:
    (work / "package.json").write_text(json.dumps({"name": "p", "scripts": {"build": "node build.js"}}))
    (work / "build.js").write_text(
        "const fs = require('fs'); fs.mkdirSync('dist', {recursive: true});"
        " fs.writeFileSync('dist/app.js', fs.readFileSync('app.js', 'utf8').toUpperCase());"
    )
    (work / "app.js").write_text("let x = 1;\n")
    async with a_gate(work.parent, policy_of("npm", timeout_seconds=120), working_dir=work) as gate:
        outcome = await ran(gate, "npm", "run", "build")
        assert changed(outcome, work) == {"dist": "added", "dist/app.js": "added"}
        (work / "app.js").write_text("let x = 2;\n")
        again = await ran(gate, "npm", "run", "build")
    assert changed(again, work) == {"dist/app.js": "changed"}
    assert (work / "dist" / "app.js").read_text() == "LET X = 2;\n"


async def test_sed_edits_in_place(work: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (work / name).write_text(f"{name} one\n")
    (work / "a.txt").chmod(0o640)
    async with a_gate(work.parent, policy_of("sed"), working_dir=work) as gate:
        outcome = await ran(gate, "sed", "-i", "s/one/two/", "a.txt", "b.txt")
    assert changed(outcome, work) == {"a.txt": "changed", "b.txt": "changed"}
    assert ((work / "a.txt").read_text(), (work / "a.txt").stat().st_mode & 0o777) == ("a.txt two\n", 0o640)


@pytest.mark.skipif(shutil.which("git", path="/usr/bin") is None, reason="no git")
async def test_git_commits_and_its_settings_and_hooks_stay_out_of_reach(work: Path) -> None:
    await asyncio.to_thread(subprocess.run, ["git", "init", "-q", str(work)], check=True)
    (work / "a.txt").write_text("one\n")
    who = ("-c", "user.name=Anna", "-c", "user.email=anna@example.com")
    policy = policy_of("git", "sh", read=("./.git/**",), write=("./.git/**",))
    async with a_gate(work.parent, policy, working_dir=work) as gate:
        await ran(gate, "git", "add", "a.txt")
        outcome = await ran(gate, "git", *who, "commit", "-q", "-m", "first")
        assert any(path.startswith(".git/objects/") for path in changed(outcome, work))
        log = await ran(gate, "git", "log", "--oneline")
        assert log.data["stdout"].endswith(" first\n")
        before = (work / ".git" / "config").read_text()
        for script in (
            "git config core.pager evil",
            "echo x > .git/hooks/pre-commit",
            "echo x > .git/hooks/new",
            "mkdir -p elsewhere/hooks; echo x > elsewhere/config; echo ../elsewhere > .git/commondir",
        ):
            refused = await gate.call("shell.run", argv=["sh", "-c", script])
            assert refused.data["return_code"] != 0 or code_of(refused) == 1002, refused
        assert (work / ".git" / "config").read_text() == before
        assert not (work / ".git" / "hooks" / "pre-commit").exists()
    named = policy_of("git", read=("./.git/**",), write=("./.git/**", "./.git/config"))
    async with a_gate(work.parent, named, working_dir=work) as gate:
        outcome = await ran(gate, "git", "config", "user.name", "Anna")
    assert (changed(outcome, work), "Anna" in (work / ".git" / "config").read_text()) == (
        {".git/config": "changed"},
        True,
    )

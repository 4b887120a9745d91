"""Programs that are scripts, and files that every command is shown: found where `fs.read` allows them, or named."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import venv
from pathlib import Path
from typing import Any

import pytest

from agent_gate import Outcome
from agent_gate.model.outcome import Status
from agent_gate.sandbox.choice import Choice
from tests.gates import a_gate, code_of
from tests.scenarios.test_cli import run

_picked = asyncio.run(Choice().pick("auto"))
pytestmark = pytest.mark.skipif(_picked is None or _picked.name != "bubblewrap", reason="no bubblewrap here")


def policy_of(*read: str, **shell: Any) -> dict[str, Any]:
    return {"version": 1, "tools": {"fs.read": {"allow_paths": list(read)}, "shell.run": shell}}


async def called(work: Path, policy: dict[str, Any], *argv: str) -> Outcome:
    async with a_gate(work.parent, policy, working_dir=work) as gate:
        return await gate.call("shell.run", argv=list(argv))


@pytest.fixture
def work(tmp_path: Path) -> Path:
    work = tmp_path.resolve() / "work"
    work.mkdir()
    return work


OF_THE_SANDBOX = ["/etc/passwd", "/etc/group", "/etc/localtime", "/etc/ld.so.cache", "/bin/ls"]
"""Files that each sandbox has of its own accord, or a stand-in for them."""


def allowed(path: str, by: str) -> str:
    if not os.path.exists(path):
        pytest.skip("this machine has none")
    real = os.path.realpath(path)
    return real if by == "name" else f"{os.path.dirname(real)}/{os.path.basename(real)[:2]}*"


def content(path: str) -> str:
    return Path(path).read_bytes().decode(errors="backslashreplace")


@pytest.mark.parametrize("path", OF_THE_SANDBOX)
@pytest.mark.parametrize("by", ["name", "directory"])
@pytest.mark.parametrize("program", ["cat", "sh"])
async def test_a_file_that_the_sandbox_has_of_its_own_is_shown_as_it_is_where_it_is_allowed(
    work: Path, path: str, by: str, program: str
) -> None:
    allow = allowed(path, by)
    policy = policy_of(allow, allow_executables=["cat", "sh"], unchecked_executables=["sh"], max_output_bytes=16 << 20)
    words = [program, path] if program == "cat" else ["sh", "-c", f"cat {path}"]
    outcome = await called(work, policy, *words)
    assert outcome.status is Status.SUCCESS, outcome
    assert (outcome.data["return_code"], outcome.data["stderr"]) == (0, "")
    assert outcome.data["stdout"] == content(path)


async def test_where_it_is_not_allowed_a_command_is_shown_nobody(work: Path) -> None:
    policy = policy_of("./**", allow_executables=["sh", "cat"], unchecked_executables=["sh"])
    outcome = await called(work, policy, "sh", "-c", "cat /etc/passwd /etc/group")
    assert outcome.data["stdout"] == "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\nnogroup:x:65534:\n"
    assert code_of(await called(work, policy, "cat", "/etc/passwd")) == 1002


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with a package of its own, and scripts in the ways in which installers write them."""
    folder = tmp_path_factory.mktemp("venv").resolve() / ".venv"
    venv.create(folder, symlinks=True, with_pip=False)
    packages = next(folder.glob("lib/python*/site-packages"))
    (packages / "lettuce.py").write_text("import json\nprint('tossed', json.dumps([1]))\n")
    python = folder / "bin" / "python"
    for name, head in {
        "toss": f"#!{python}\n",
        "toss-by-env": "#!/usr/bin/env python\n",
        "toss-by-shell": f"#!/bin/sh\n'''exec' \"{python}\" \"$0\" \"$@\"\n' '''\n",
    }.items():
        (folder / "bin" / name).write_text(f"{head}import lettuce\n")
        (folder / "bin" / name).chmod(0o755)
    return folder


SCRIPTS = ["toss", "toss-by-env", "toss-by-shell"]


def packages_of(environment: Path) -> Path:
    return next(environment.glob("lib/python*/site-packages"))


def base() -> str:
    return os.path.realpath(sys.base_prefix)


def script_policy(environment: Path, name: str, *read: str, **shell: Any) -> dict[str, Any]:
    folders = [str(environment / "bin"), "/usr/bin", "/bin"]
    return policy_of(
        "./**", *read, allow_executables=[name], unchecked_executables=[name], trusted_dirs=folders, **shell
    )


@pytest.mark.parametrize(
    "first", ["#!/bin/sh", "#! /bin/sh -e", "#!/usr/bin/env sh", "#!/usr/bin/env -S sh -e", "#!/usr/bin/sh"]
)
async def test_a_script_whose_interpreter_is_the_systems_needs_nothing_more(work: Path, first: str) -> None:
    folder = work.parent / "programs"
    folder.mkdir()
    (folder / "say").write_text(f"{first}\necho said $1\n")
    (folder / "say").chmod(0o755)
    folders = [str(folder), "/usr/bin"]
    policy = policy_of("./**", allow_executables=["say"], unchecked_executables=["say"], trusted_dirs=folders)
    outcome = await called(work, policy, "say", "one")
    assert outcome.status is Status.SUCCESS, outcome
    assert outcome.data["stdout"] == "said one\n"


@pytest.mark.parametrize("name", SCRIPTS)
async def test_a_script_of_an_environment_finds_its_interpreter_and_packages_where_they_may_be_read(
    work: Path, environment: Path, name: str
) -> None:
    outcome = await called(work, script_policy(environment, name, f"{environment}/**", f"{base()}/**"), name)
    assert outcome.status is Status.SUCCESS, outcome
    assert (outcome.data["return_code"], outcome.data["stdout"], outcome.data["stderr"]) == (0, "tossed [1]\n", "")


@pytest.mark.parametrize("name", SCRIPTS)
async def test_a_script_whose_environment_may_not_be_read_is_refused_and_each_missing_path_is_named(
    work: Path, environment: Path, name: str
) -> None:
    outcome = await called(work, script_policy(environment, name), name)
    assert (outcome.status, code_of(outcome)) == (Status.DENIED, 1002)
    assert outcome.error is not None
    for path in (environment / "bin" / "python", environment / "pyvenv.cfg", packages_of(environment)):
        assert f"`{path}`" in outcome.error.detail
    assert f"add `{environment}/**`" in outcome.error.suggestion
    assert outcome.error.suggestion.endswith(" to allow_paths of fs.read")


@pytest.mark.skipif(base().startswith("/usr"), reason="the interpreter of the system is shown to every command")
async def test_what_is_suggested_is_enough(work: Path, environment: Path) -> None:
    policy = script_policy(environment, "toss", f"{environment}/**")
    outcome = await called(work, policy, "toss")
    assert outcome.error is not None
    assert f"{base()}/lib/python" in outcome.error.detail
    assert f"`{environment}/" not in outcome.error.detail
    patterns = [word for word in outcome.error.suggestion.split("`") if word.endswith("**")]
    policy["tools"]["fs.read"]["allow_paths"] += patterns
    assert (await called(work, policy, "toss")).data["stdout"] == "tossed [1]\n"


def test_doctor_and_check_say_what_a_script_is_missing(work: Path, environment: Path) -> None:
    for read in ([], [f"{environment}/**", f"{base()}/**"]):
        (work / "policy.yaml").write_text(json.dumps(script_policy(environment, "toss", *read)))
        rows = [row for row in json.loads(run(work, "doctor", "--json").stdout)["checks"] if row["name"] == "programs"]
        args = json.dumps({"argv": ["toss"]})
        checked = json.loads(run(work, "check", "--tool", "shell.run", "--args", args, "--json").stdout)
        if read:
            assert (rows, checked["decision"]) == ([{"name": "programs", "status": "ok", "found": "toss"}], "allow")
        else:
            [row] = rows
            assert (row["status"], checked["error"]["code"]) == ("fail", 1002)
            for told in (row["found"], checked["error"]["detail"]):
                assert f"{environment}/bin/python" in told
            assert f"{environment}/**" in row["advice"]


def test_doctor_names_a_program_that_is_not_there(work: Path) -> None:
    (work / "policy.yaml").write_text(json.dumps(policy_of("./**", allow_executables=["ls", "no-such-program"])))
    [row] = [row for row in json.loads(run(work, "doctor", "--json").stdout)["checks"] if row["name"] == "programs"]
    assert (row["status"], "no-such-program was not found" in row["found"]) == ("warn", True)
    assert run(work, "doctor", "-p", "missing.yaml").returncode == 3

"""Binding a command: its words, its program, the files that it names, and what is held open meanwhile."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent_gate import load_policy
from agent_gate.model.bounds import ARGV_WORDS_MAX, WORD_BYTES_MAX
from agent_gate.model.call import Agent, CallRequest
from agent_gate.model.errors import GateError
from agent_gate.model.tool import Json
from agent_gate.policy.judge import Judge
from agent_gate.ports.tools import Binding
from agent_gate.resolve.workspace import Workspace
from agent_gate.services.shell import ShellService, look
from agent_gate.services.shell.proposal import FileProposal

CAT = os.path.realpath("/usr/bin/cat")
NO_CALL: Any = None
"""A command runs what was looked at, whatever call it is for."""
SHELL = {"allow_executables": ["ls", "cat", "echo", "git", "sh"], "unchecked_executables": ["sh"]}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    root = tmp_path.resolve()
    for folder in ("sub", "out"):
        (root / "work" / folder).mkdir(parents=True)
    (root / "work" / "a.txt").write_text("one\n")
    (root / "work" / "link").symlink_to("../secret.txt")
    (root / "secret.txt").write_text("CANARY\n")
    return root / "work"


def policy_of(shell: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return {"version": 1, "tools": {"fs.read": {"allow_paths": ["./**"]}, "shell.run": {**SHELL, **(shell or {})}}}


@asynccontextmanager
async def bound(work: Path, args: Mapping[str, Json], policy: Any = None) -> AsyncIterator[Binding]:
    loaded = load_policy(policy or policy_of())
    standing = Workspace(str(work), work / "gate.db", loaded)
    service = ShellService(str(work), standing.resolver(), standing.look)
    (registered,) = service.registered_tools()
    assert registered.bind is not None
    judge: Judge = standing.judge(loaded)
    binding = await registered.bind(CallRequest(Agent("a"), "shell.run", args), args, judge)
    try:
        yield binding
    finally:
        assert binding.release is not None
        binding.release()


def identity(path: Path | str) -> dict[str, str]:
    status = os.stat(path)
    return {"device": f"{os.major(status.st_dev)}:{os.minor(status.st_dev)}", "inode": str(status.st_ino)}


async def test_a_command_is_bound_to_its_program_and_its_files(work: Path) -> None:
    async with bound(work, {"argv": ["cat", "sub/../a.txt", "link", "none"]}) as binding:
        assert binding.signatures == ("shell.run(cat sub/../a.txt link none)",)
        assert binding.resources == {
            "executable": CAT,
            **identity(CAT),
            "paths": {
                "sub/../a.txt": {"path": f"{work}/a.txt", **identity(work / "a.txt")},
                "link": {"path": str(work.parent / "secret.txt"), **identity(work.parent / "secret.txt")},
                "none": {"path": f"{work}/none"},
            },
            "sandbox": binding.resources["sandbox"],
            "writes": "none",
        }
        kinds = {"sub/../a.txt": "file", "link": "file", "none": "absent"}
        assert binding.found == {"paths": {word: {"type": kind} for word, kind in kinds.items()}}


@pytest.mark.parametrize(
    "args",
    [{"argv": ["echo", "a b"]}, {"cmd": ["echo", "a b"]}, {"command": "echo 'a b'"}, {"command": " echo a\\ b\n"}],
)
async def test_the_words_may_be_given_in_each_of_three_ways(args: dict[str, Json], work: Path) -> None:
    async with bound(work, args) as binding:
        assert binding.signatures == ("shell.run(echo a%20b)",)


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ({}, "`shell.run` needs one of argv, cmd, command, not none of them"),
        ({"argv": ["ls"], "cmd": ["ls"]}, "`shell.run` needs one of argv, cmd, command, not argv and cmd"),
        ({"argv": [""]}, "the command names no program"),
        ({"command": "  "}, "the command names no program"),
        ({"command": "''"}, "the command names no program"),
        ({"command": "echo 'a"}, "a quote ' in the command is never closed"),
        ({"command": "echo \\"}, "the command ends in a backslash"),
        ({"argv": ["echo", "a\0b"]}, "a word of the command holds a NUL"),
        ({"argv": ["x"] * (ARGV_WORDS_MAX + 1)}, "the command has 20001 words"),
        ({"argv": ["echo", "x" * (WORD_BYTES_MAX + 1)]}, "the longest of 131072 bytes"),
        ({"argv": ["cat", "a" * 5000]}, "the path has"),
        ({"argv": ["echo"], "cwd": "a\0b"}, "the path holds a NUL"),
    ],
)
async def test_what_is_no_command_is_refused_as_bad_arguments(args: dict[str, Json], problem: str, work: Path) -> None:
    with pytest.raises(GateError) as refused:
        async with bound(work, args):
            pass
    assert problem in str(refused.value)
    assert refused.value.code == 2002


async def test_paths_are_relative_to_the_directory_that_the_agent_names(work: Path) -> None:
    (work / "sub" / "b.txt").write_text("b")
    async with bound(work, {"argv": ["cat", "b.txt"], "cwd": "sub/"}) as binding:
        assert binding.resources["cwd"] == f"{work}/sub"
        assert {word: found["path"] for word, found in binding.resources["paths"].items()} == {
            ".": f"{work}/sub",
            "b.txt": f"{work}/sub/b.txt",
        }


@pytest.mark.parametrize(("word", "real"), [("/", "/"), ("/.", "/"), ("./", ""), ("sub/.", "/sub"), ("sub//", "/sub")])
async def test_a_directory_may_be_named_with_a_slash_at_its_end(word: str, real: str, work: Path) -> None:
    async with bound(work, {"argv": ["ls", word]}) as binding:
        assert binding.resources["paths"][word]["path"] == (real if real == "/" else f"{work}{real}")


async def test_a_way_through_a_process_is_refused(work: Path) -> None:
    with pytest.raises(GateError) as refused:
        async with bound(work, {"argv": ["cat", "/proc/self/root/etc/passwd"]}):
            pass
    assert refused.value.code == 1002


@pytest.mark.parametrize("argv", [["rm", "a.txt"], ["cat", "--unknown", "a.txt"], ["sh", "a.txt"]])
async def test_nothing_is_looked_for_on_behalf_of_words_that_are_not_judged(argv: list[str], work: Path) -> None:
    async with bound(work, {"argv": argv}) as binding:
        assert "paths" not in binding.resources


async def test_a_name_without_a_program_is_bound_to_the_reason(work: Path) -> None:
    async with bound(work, {"argv": ["./cat", "a.txt"]}) as binding:
        assert "executable" not in binding.resources
        assert binding.found["executable"] == "is a path outside of trusted_dirs"


async def test_what_is_held_open_is_let_go(work: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    async with bound(work, {"argv": ["cat", "a.txt", "sub", "none"], "cwd": "."}):
        assert len(os.listdir("/proc/self/fd")) > before
    assert len(os.listdir("/proc/self/fd")) == before


async def test_nothing_stays_open_where_binding_fails_half_way(work: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(GateError):
        async with bound(work, {"argv": ["cat", "a.txt", "a" * 5000]}):
            pass
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.fixture
def repository(work: Path) -> Path:
    subprocess.run(["git", "init", "-q"], cwd=work, check=True)
    return work


async def test_a_repository_is_looked_at_for_what_it_would_start(work: Path, repository: Path) -> None:
    (repository / ".git" / "config").write_text("[core]\n fsmonitor = /bin/x\n")
    async with bound(work, {"argv": ["git", "-C", "sub", "status"]}) as binding:
        assert binding.found["repository"] == ["core.fsmonitor"]


def test_looking_alone_asks_for_no_sandbox(work: Path) -> None:
    policy = load_policy(policy_of())
    standing = Workspace(str(work), work / "gate.db", policy)
    looked = look({"command": "cat a.txt"}, policy, standing.resolver(), str(work))
    try:
        assert looked.signature == "shell.run(cat a.txt)"
        assert "sandbox" not in looked.resources
    finally:
        looked.release()


async def test_without_its_section_only_the_words_are_read(work: Path) -> None:
    async with bound(work, {"argv": ["cat", "a.txt"]}, {"version": 1}) as binding:
        assert (binding.signatures, binding.resources) == (
            ("shell.run(cat a.txt)",),
            {"sandbox": "none", "writes": "none"},
        )


async def previewed(work: Path, script: str, *writes: str) -> dict[str, Any]:
    policy = policy_of()
    policy["tools"]["fs.write"] = {"allow_paths": list(writes)}
    async with bound(work, {"argv": ["sh", "-c", script]}, policy) as binding:
        assert binding.preview is not None
        try:
            proposal = await binding.preview(NO_CALL)
        except GateError as unavailable:
            pytest.skip(str(unavailable))
    assert isinstance(proposal, FileProposal)
    told = {**proposal.result, "changes": await proposal.shown()}
    await proposal.discard()
    return told


async def test_a_preview_tells_what_would_change_and_changes_nothing(work: Path) -> None:
    (work / "out" / "old").write_text("one\ntwo\n")
    (work / "out" / "gone").write_text("x")
    script = "cd out; echo three >> old; rm gone; echo new > made; mkdir d; echo deep > d/x; chmod 600 old; echo done"
    told = await previewed(work, script, "./out/**")
    assert (told["return_code"], told["stdout"]) == (0, "done\n")
    by_path = {change["path"].removeprefix(f"{work}/out/"): change for change in told["changes"]}
    assert {path: change["change"] for path, change in by_path.items()} == {
        "d": "added",
        "d/x": "added",
        "gone": "removed",
        "made": "added",
        "old": "changed",
    }
    assert by_path["old"]["diff"].splitlines()[-3:] == ["+three", "-mode 0644", "+mode 0600"]
    assert sorted(path.name for path in (work / "out").iterdir()) == ["gone", "old"]
    assert (work / "out" / "old").read_text() == "one\ntwo\n"


async def test_a_preview_lets_a_single_file_be_written_as_the_act_would(work: Path) -> None:
    (work / "same.txt").write_text("same\n")
    told = await previewed(work, "echo two >> a.txt; echo same > same.txt", "./a.txt", "./same.txt")
    assert (told["return_code"], told["stderr"]) == (0, "")
    change, same = told["changes"]
    assert (change["path"], change["change"]) == (f"{work}/a.txt", "changed")
    assert same == {"path": f"{work}/same.txt", "change": "mode", "diff": "times or attributes"}
    assert change["diff"].splitlines()[-2:] == [" one", "+two"]
    assert (work / "a.txt").read_text() == "one\n"


async def test_a_preview_has_no_way_to_what_it_must_not_change(work: Path) -> None:
    """Neither a descriptor of the real directory nor the network."""
    script = 'for fd in /proc/self/fd/*; do echo "$fd $(readlink $fd)"; done; cat /proc/net/dev'
    told = await previewed(work, script, "./out/**", "./a.txt")
    assert str(work) not in told["stdout"]
    assert [line.split(":")[0].strip() for line in told["stdout"].splitlines() if ":" in line and "|" not in line][
        -1:
    ] == ["lo"]


async def test_a_preview_leaves_nothing_behind(work: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(scratch))
    before = len(os.listdir("/proc/self/fd"))
    told = await previewed(work, "mkdir -p out/a/b; echo x > out/a/b/c; chmod 000 out/a/b out/a", "./out/**")
    assert [change["change"] for change in told["changes"]] == ["added", "added", "added"]
    assert (list(scratch.iterdir()), len(os.listdir("/proc/self/fd"))) == ([], before)

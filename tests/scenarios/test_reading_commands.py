"""Reading commands through the whole gate: those that people use every day work, and each reads what was judged."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agent_gate import Outcome
from agent_gate.model.outcome import Status
from agent_gate.sandbox.choice import Choice
from tests.gates import a_gate, code_of

NAMES = [
    "awk",
    "cat",
    "diff",
    "du",
    "find",
    "grep",
    "less",
    "ls",
    "more",
    "rg",
    "strings",
    "tail",
    "tar",
    "tree",
    "which",
    "xxd",
]
OFF = {"sandbox": "off"}
pytestmark = pytest.mark.skipif(asyncio.run(Choice().pick("auto")) is None, reason="this machine offers no sandbox")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    work = tmp_path.resolve() / "work"
    for folder in ("clean/deep", "mixed/secrets", "linked", "other"):
        (work / folder).mkdir(parents=True)
    (work / "a.txt").write_text("one\ntwo\n")
    (work / "clean" / "deep" / "b.txt").write_text("needle\n")
    (work / "mixed" / "secrets" / "k").write_text("CANARY needle\n")
    (work / "linked" / "out").symlink_to(work.parent / "outside.txt")
    (work / ".env").write_text("CANARY needle\n")
    (work.parent / "outside.txt").write_text("CANARY needle\n")
    return work


def names_below(work: Path) -> list[Path]:
    return sorted(work.rglob("*"))


def pack(work: Path, archive: str) -> None:
    letter = {"a.tgz": "z", "a.tbz": "j", "a.txz": "J"}[archive]
    if not shutil.which({"z": "gzip", "j": "bzip2", "J": "xz"}[letter]):
        pytest.skip("the program that packs it is not installed")
    subprocess.run(["tar", f"-c{letter}f", archive, "a.txt"], cwd=work, check=True)


async def told(work: Path, argv: list[str], **fields: Any) -> Outcome:
    shell = {"allow_executables": NAMES, "timeout_seconds": 20, **fields}
    read = {"allow_paths": ["./**"], "deny_paths": ["**/secrets/**"]}
    policy = {"version": 1, "tools": {"shell.run": shell, "fs.read": read}, "boundary": "deny_by_default"}
    async with a_gate(work.parent, policy, working_dir=work) as gate:
        return await gate.call("shell.run", argv=argv)


def data_of(outcome: Outcome) -> dict[str, Any]:
    assert outcome.status is Status.SUCCESS, outcome
    assert isinstance(outcome.data, dict)
    return outcome.data


@pytest.mark.parametrize("fields", [{}, OFF], ids=["in the sandbox", "without"])
async def test_tail_that_follows_ends_with_its_time_as_a_success_and_keeps_what_it_printed(
    fields: dict[str, Any], work: Path
) -> None:
    data = data_of(await told(work, ["tail", "-f", "a.txt"], timeout_seconds=1, **fields))
    assert data == {"return_code": 0, "stdout": "one\ntwo\n", "stderr": "", "timed_out": True}


async def test_tail_that_fails_before_its_time_tells_how(work: Path) -> None:
    data = data_of(await told(work, ["tail", "-f", "missing"]))
    assert (data["return_code"], "timed_out" in data) == (1, False)


@pytest.mark.parametrize(
    "words", [["-tzf", "a.tgz"], ["tzf", "a.tgz"], ["-tf", "a.tgz"], ["-tjf", "a.tbz"], ["-tJf", "a.txz"]]
)
@pytest.mark.parametrize("fields", [{}, OFF], ids=["in the sandbox", "without"])
async def test_a_packed_archive_is_listed(words: list[str], fields: dict[str, Any], work: Path) -> None:
    pack(work, words[-1])
    data = data_of(await told(work, ["tar", *words], **fields))
    assert (data["stdout"], data["return_code"]) == ("a.txt\n", 0)


async def test_listing_an_archive_writes_nothing_and_sees_nothing_else(work: Path) -> None:
    pack(work, "a.tgz")
    before = names_below(work)
    assert code_of(await told(work, ["tar", "-tzf", "a.tgz", "--to-command=id"])) == 1004
    assert code_of(await told(work, ["tar", "-tzf", "../outside.txt"])) == 1002
    assert code_of(await told(work, ["tar", "-xzf", "a.tgz"])) == 1004
    assert names_below(work) == before


async def test_which_finds_programs_and_less_prints_like_cat(work: Path) -> None:
    found = data_of(await told(work, ["which", "ls", "nosuch"]))
    assert (found["stdout"], found["return_code"]) == ("/usr/bin/ls\n", 1)
    for argv in (["less", "a.txt"], ["less", "-NSR", "-FX", "a.txt"]):
        assert data_of(await told(work, argv))["stdout"] == "one\ntwo\n"
    assert "one\ntwo\n" in data_of(await told(work, ["more", "a.txt"]))["stdout"]
    assert code_of(await told(work, ["less", ".env"])) == 1002
    assert code_of(await told(work, ["less", "-o", "log", "a.txt"])) == 1004


@pytest.mark.parametrize(
    "argv",
    [
        ["awk", '$/"/ ; print "touch made" | "sh" ; y=$/"/', "a.txt"],
        ["awk", 'BEGIN{print "x",\n"y" > "made"}'],
        ["awk", '{} /[/]/ ; {print "touch made" | "sh"} /]/', "a.txt"],
        ["xxd", "-ac", "a.txt", "made"],
        ["xxd", "a.txt", "-made"],
        ["strings", "@.env", "."],
        ["strings", "-n", "@.env", "a.txt"],
    ],
)
async def test_no_words_make_a_program_read_or_write_unjudged_without_a_sandbox(argv: list[str], work: Path) -> None:
    before = names_below(work)
    outcome = await told(work, argv, **OFF)
    assert code_of(outcome) == 1004
    assert names_below(work) == before


@pytest.mark.parametrize(
    ("argv", "first"),
    [
        (["grep", "-r", "needle"], ".env"),
        (["grep", "-r", "needle", "."], ".env"),
        (["grep", "-r", "needle", "clean", "mixed"], "mixed/secrets"),
        (["grep", "-R", "needle", "linked"], "linked/out"),
        (["find", "mixed"], "mixed/secrets"),
        (["du", "."], ".env"),
        (["ls", "-R", "mixed"], "mixed/secrets"),
        (["diff", "-N", "a.txt", "."], ".env"),
        (["diff", "-r", "clean", "mixed"], "mixed/secrets"),
    ],
)
async def test_without_a_sandbox_nothing_is_read_through_that_holds_what_may_not_be_read(
    argv: list[str], first: str, work: Path
) -> None:
    outcome = await told(work, argv, **OFF)
    assert str(outcome.error) == (
        f"path_denied: `{argv[0]}` would read `{work}/{first}` too, which fs.read does not allow,"
        " and no sandbox hides it;"
        " name files, or a directory without such files, or remove `sandbox: off` of shell.run"
    )


async def test_without_a_sandbox_a_second_name_of_the_gates_own_file_is_found(work: Path) -> None:
    async with a_gate(work.parent, {"version": 1, "tools": {}}, working_dir=work) as gate:
        ledger = next(work.parent.glob("*.db"))
        assert gate is not None
    (work / "clean" / "copy").hardlink_to(ledger)
    assert f"`{work}/clean/copy`" in str((await told(work, ["grep", "-r", "x", "clean"], **OFF)).error)


async def test_without_a_sandbox_a_directory_that_holds_nothing_else_is_read_through(work: Path) -> None:
    data = data_of(await told(work, ["grep", "-r", "needle", "clean"], **OFF))
    assert data["stdout"] == "clean/deep/b.txt:needle\n"


async def test_in_the_sandbox_reading_through_directories_goes_on_without_what_is_hidden(work: Path) -> None:
    data = data_of(await told(work, ["grep", "-r", "needle", "."]))
    assert data["stdout"] == "./clean/deep/b.txt:needle\n"

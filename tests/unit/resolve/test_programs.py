"""Names of programs, resolved in directories that nobody else can change."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent_gate.resolve.programs import Executable, NotFound, find_program


@contextmanager
def found(given: str, *dirs: Path) -> Iterator[Executable]:
    executable = find_program(given, list(map(str, dirs)))
    try:
        yield executable
    finally:
        executable.descriptor.leave()


def refused(given: str, *dirs: Path | str) -> str:
    with pytest.raises(NotFound) as why:
        find_program(given, list(map(str, dirs))).descriptor.leave()
    return str(why.value)


def make(path: Path, mode: int = 0o755) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)
    return path


def test_a_name_leads_to_the_file_in_the_first_directory_that_has_one(tmp_path: Path) -> None:
    first, second = make(tmp_path / "one" / "tool"), make(tmp_path / "two" / "tool")
    with found("tool", tmp_path / "none", first.parent, second.parent) as executable:
        assert executable.path == str(first)
        assert os.path.samestat(os.fstat(executable.descriptor.number), first.stat())
        assert executable.identity["executable"] == str(first)


def test_a_link_is_followed_to_the_real_file(tmp_path: Path) -> None:
    real = make(tmp_path / "lib" / "tool-2")
    link = tmp_path / "bin" / "tool"
    link.parent.mkdir()
    link.symlink_to(real)
    with found("tool", link.parent) as executable:
        assert executable.path == str(real)


def test_a_full_path_is_taken_where_the_name_alone_leads_to_the_same_file(tmp_path: Path) -> None:
    tool = make(tmp_path / "bin" / "tool")
    with found(str(tool), tool.parent) as executable:
        assert executable.path == str(tool)


def test_a_full_path_to_another_file_of_that_name_is_not(tmp_path: Path) -> None:
    first, second = make(tmp_path / "one" / "tool"), make(tmp_path / "two" / "tool")
    assert refused(str(second), first.parent, second.parent) == (
        f"is not the program that `tool` leads to, which is {first}"
    )


@pytest.mark.parametrize(
    "given", ["./tool", "bin/tool", "../bin/tool", "/tmp/tool", "{bin}/../bin/tool", "{bin}//tool"]
)
def test_a_path_outside_of_the_trusted_directories_is_refused(given: str, tmp_path: Path) -> None:
    tool = make(tmp_path / "bin" / "tool")
    assert refused(given.replace("{bin}", str(tool.parent)), tool.parent) == "is a path outside of trusted_dirs"


@pytest.mark.parametrize("name", ["", ".", "..", "a\0b"])
def test_what_is_no_name_is_refused(name: str, tmp_path: Path) -> None:
    assert refused(name, tmp_path) == "is not the name of a program"


def test_a_name_that_no_directory_has_is_refused(tmp_path: Path) -> None:
    assert refused("tool", tmp_path, tmp_path / "none") == "was not found in trusted_dirs"


def test_a_directory_and_a_file_that_nobody_may_start_are_no_programs(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    make(tmp_path / "text", 0o644)
    assert refused("folder", tmp_path).endswith("which is not a program")
    assert refused("text", tmp_path).endswith("which is not a program")


def test_a_program_that_others_can_change_is_refused(tmp_path: Path) -> None:
    for mode in (0o757, 0o775):
        make(tmp_path / "tool", mode)
        assert refused("tool", tmp_path).endswith("which others can change")


def test_a_program_in_a_directory_that_others_can_change_is_refused(tmp_path: Path) -> None:
    tool = make(tmp_path / "bin" / "tool")
    tool.parent.chmod(0o777)
    assert refused("tool", tool.parent) == f"lies in {tool.parent}, which others can change"
    tool.parent.chmod(0o755)
    tmp_path.chmod(0o777)
    assert refused("tool", tool.parent) == f"lies below {tmp_path}, which others can change"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file away")
def test_a_program_that_belongs_to_another_user_is_refused(tmp_path: Path) -> None:
    tool = make(tmp_path / "tool")
    os.chown(tool, 65_534, 65_534)
    assert refused("tool", tmp_path).endswith("which others can change")

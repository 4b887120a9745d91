"""The filter of system calls: its numbers are the kernel's, and it is one that the kernel takes."""

from __future__ import annotations

import platform
import re
from pathlib import Path

import pytest

from agent_gate.sandbox import seccomp

HEADERS = {
    "x86_64": (Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"), 0),
    "generic": (Path("/usr/include/asm-generic/unistd.h"), 1),
}


@pytest.mark.parametrize("name", HEADERS)
def test_the_numbers_are_those_of_the_kernels_headers(name: str) -> None:
    header, column = HEADERS[name]
    if not header.exists():
        pytest.skip(f"{header} is not installed")
    known = {
        call: int(number) for call, number in re.findall(r"#define __NR\w*?_(\w+) (\d+)$", header.read_text(), re.M)
    }
    ours = {call: numbers[column] for call, numbers in seccomp._DENIED.items() if numbers[column] >= 0}
    assert {call: (number, known[call]) for call, number in ours.items() if known.get(call, number) != number} == {}
    assert len(ours.keys() & known.keys()) > 50


@pytest.mark.skipif(not seccomp.is_supported(), reason="no numbers for this machine")
def test_each_filter_is_made_of_whole_instructions_and_ends_by_allowing() -> None:
    filters = [
        seccomp.program(starts_programs=True),
        seccomp.program(starts_programs=False),
        seccomp.program(starts_programs=True, supervises=True),
    ]
    assert all(len(code) % 8 == 0 and code.endswith(b"\x00\x00\xff\x7f") for code in filters)
    assert len(set(filters)) == 3


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the other way to number calls is x86's")
def test_calls_by_other_numbers_than_the_machines_own_end_the_process() -> None:
    code = seccomp.program(starts_programs=True)
    assert b"\x3e\x00\x00\xc0" in code
    assert b"\x00\x00\x00\x40" in code

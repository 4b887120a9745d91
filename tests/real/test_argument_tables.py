"""Parsers against programs: each file that a program opens is one that reading its command line named."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from agent_gate.policy.guards.programs import PROGRAMS, Reach, Refused, Use
from agent_gate.policy.guards.programs.grammar import Talker, free
from tests.real.command_lines import lay_out, lines
from tests.real.tracing import Trace, trace

THOROUGH = os.environ.get("AGENT_GATE_THOROUGH") == "1"
LINES, LINES_OF_TALKERS = (3_000, 300) if THOROUGH else (12, 2)
TRIED_MAX = 100
"""How many lines are made for each that is run; most programs take nearly all."""
TIMEOUT_S = 0.7
"""For those that never end by themselves."""
# git finds its files by itself: what it may see is the view's to say.
NAMES = sorted(PROGRAMS.keys() - {"git"})
STARTED = {"egrep": {"grep"}, "fgrep": {"grep"}, "tar": {"sh", "gzip", "bzip2", "xz", "lzma", "zstd"}}
"""Scripts around another program, and the programs that unpack an archive."""
IGNORE_FILES = {"rg": {".gitignore", ".ignore", ".rgignore"}, "tree": {".gitignore"}}
"""They say which names are left out, and nothing of them is printed."""
ASKING_THE_NETWORK = {"hostname"}
"""For the machine's own name, and for no other."""

pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "tree"
    folder.mkdir()
    lay_out(folder)
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_a_program_opens_what_its_parser_named_and_changes_and_starts_nothing(name: str, folder: Path) -> None:
    if shutil.which(name, path="/usr/bin:/bin") is None:
        pytest.skip(f"{name} is not installed")
    before = snapshot(folder)
    problems = [problem for words, use in accepted(name) for problem in compare(name, words, use, folder)]
    assert problems == []
    assert snapshot(folder) == before


def accepted(name: str) -> Iterator[tuple[list[str], Use]]:
    """Lines that pass, each once; a program that may only be asked for its version has hardly any."""
    program, met = PROGRAMS[name], set()
    most = LINES_OF_TALKERS if isinstance(program, Talker) or program is free else LINES
    for words in islice(lines(name, program, random.Random(name)), most * TRIED_MAX):
        try:
            use = program(words)
        except Refused:
            continue
        if tuple(words) not in met:
            met.add(tuple(words))
            yield words, use
        if len(met) == most:
            return


def compare(name: str, words: list[str], use: Use, folder: Path) -> Iterator[str]:
    done = trace([name, *words], folder, folder.parent, TIMEOUT_S)
    line = f"{name} {words}"
    yield from (f"{line} opened {path}" for path in unnamed(name, use, done, folder))
    if name not in ASKING_THE_NETWORK:
        yield from (f"{line} did {call}" for call in done.changed)
    allowed = STARTED.get(name, set()) if name != "tar" or use.starts_programs else set()
    yield from (f"{line} started {path}" for path in done.started if os.path.basename(path) not in allowed)


def unnamed(name: str, use: Use, done: Trace, folder: Path) -> Iterator[str]:
    named = {os.path.realpath(folder / word) for word in (*use.reads, *use.mentions)}
    for path in sorted(done.opened):
        is_ours = path == str(folder) or path.startswith(f"{folder}/")
        is_below = use.reach is not Reach.NAMED and any(path.startswith(f"{above}/") for above in named)
        is_ignore_file = os.path.basename(path) in IGNORE_FILES.get(name, ())
        if is_ours and path not in named and not is_below and not is_ignore_file:
            yield path


def snapshot(folder: Path) -> dict[str, object]:
    return {str(path): path.is_file() and path.read_bytes() for path in sorted(folder.rglob("*"))}


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["cat", "a.txt", "nosuch"], (["a.txt"], (), [])),
        (["ls", "sub"], (["sub"], (), [])),
        (["cp", "a.txt", "out2"], (["a.txt"], ("openat out2",), [])),
        (["sh", "-c", "cat a.txt; :"], (["a.txt"], (), ["cat"])),
    ],
)
def test_what_a_program_does_is_seen(
    argv: list[str], expected: tuple[list[str], tuple[str, ...], list[str]], folder: Path
) -> None:
    done = trace(argv, folder, folder.parent, 5.0)
    opened = sorted(os.path.relpath(path, folder) for path in done.opened if path.startswith(f"{folder}/"))
    assert (opened, done.changed, [os.path.basename(path) for path in done.started]) == expected

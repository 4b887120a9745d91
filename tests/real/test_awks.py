"""Generated programs that pass as harmless, run by every awk of this machine: none starts a program or opens a file."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from agent_gate.policy.guards.programs import Refused, program_named

AWKS = [["gawk"], ["mawk"], ["original-awk"], ["busybox", "awk"]]
INSTALLED = [words for words in AWKS if shutil.which(words[0])]
PROGRAMS = 100_000 if os.environ.get("AGENT_GATE_THOROUGH") == "1" else 300
DEEDS = ['print "x" > "HIT"', 'print "x" | "tee HIT"', 'print "x" >> "HIT"', 'print "x",\n"y" > "HIT"', '"tee HIT" | x']
HIDING = ['/"/', "/[/]/", '/[/"]/', "/]/", '"/"', "/\\//", '"\\""', "#", "\\\n", '/[[:alpha:]/"]/', "/[]/]/", "/=/"]
BEFORE = [
    *("$", "x", "1", ")", "]", "++", "--", "!", "~", "(", ",", ";", "&&", "||", "?", ":", "length", "rand()", "in"),
    *("print", "return", "exit", "delete", "-", "+", "*", "=", "==", "{", "}", "$x", "x++", "NR", "{}", "\n", '"a"'),
    *("if (1)", "while (0)", "for (;0;)", "do", "else", "x[1]", "f(1)", "case 1:"),
]
TOKENS = [*BEFORE, *HIDING, *DEEDS, '"', "/", "[", "]", "\\", ";", "\n", "}", "{", "BEGIN{", "BEGIN{", "function f(a){"]


def programs(seed: int) -> Iterator[str]:
    """A deed hidden between two things that may be an expression, a string or a division; or any tokens at all."""
    chance = random.Random(seed)
    while True:
        if chance.random() < 0.5:
            hiding = chance.choice(HIDING)
            parts = [chance.choice(BEFORE), hiding, ";", chance.choice(DEEDS), ";", chance.choice(BEFORE), hiding]
            for _ in range(chance.randrange(3)):
                parts[chance.randrange(len(parts))] = chance.choice(TOKENS)
            text = chance.choice(["", " "]).join(parts)
            yield chance.choice([text, f"BEGIN{{{text}}}", f"{{{text}}}", f"BEGIN{{{text}"])
        else:
            yield chance.choice(["", " "]).join(chance.choices(TOKENS, k=chance.randrange(2, 14)))


def passing(seed: int) -> Iterator[str]:
    awk = program_named("awk")
    assert awk is not None
    for text in programs(seed):
        try:
            awk([text])
        except Refused:
            continue
        if "HIT" in text:
            yield text


def hits(words: list[str], program: str, folder: Path) -> list[str]:
    with suppress(subprocess.TimeoutExpired):
        subprocess.run(
            [*words, program],
            cwd=folder,
            input=b'a/b "c"\n',
            capture_output=True,
            check=False,
            timeout=1,
            env={"PATH": os.defpath},
        )
    found = os.listdir(folder)
    for name in found:
        (folder / name).unlink()
    return found


@pytest.mark.skipif(not INSTALLED, reason="no awk on this machine")
def test_a_program_that_passes_does_nothing_in_any_awk(tmp_path: Path) -> None:
    tried = passing(seed=13)
    found = []
    for _ in range(PROGRAMS):
        program = next(tried)
        found += [f"{words[0]}: {program!r}" for words in INSTALLED if hits(words, program, tmp_path)]
    assert found == []


@pytest.mark.parametrize("words", INSTALLED, ids=lambda words: words[0])
def test_the_deeds_that_are_hidden_would_be_seen(words: list[str], tmp_path: Path) -> None:
    assert [hits(words, f"BEGIN{{{deed}}}", tmp_path) for deed in DEEDS[:4]] == [["HIT"]] * 4

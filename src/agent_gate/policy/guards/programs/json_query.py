"""jq: filters over the files that it is named, without modules or files of its own."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent_gate.policy.guards.programs.grammar import Refused, Use, names, refuse_long

_FLAGS = names(
    "-r -c -n -e -s -S -a -j -M -C -R -V --raw-output --raw-output0 --compact-output --null-input --exit-status",
    "--slurp --sort-keys --ascii-output --join-output --monochrome-output --color-output --raw-input --tab",
    "--stream --stream-errors --seq --unbuffered --version",
)
_WITH_VALUES = {"--arg": 2, "--argjson": 2, "--indent": 1}
_LETTERS = re.compile(r"-[rcneSsajMCR]+")
_MODULES = re.compile(r"(?<!\.)\b(import|include|modulemeta)\b")


def jq(words: Sequence[str], /) -> Use:
    operands: list[str] = []
    texts_follow = options_end = False
    waiting = iter(words)
    files: list[str] = []
    for word in waiting:
        if options_end or not word.startswith("-") or word == "-":
            if not operands:
                operands.append(word)
            elif not texts_follow and word != "-":
                files.append(word)
        elif word == "--":
            options_end = True
        elif word in ("--args", "--jsonargs"):
            texts_follow = True
        elif word in _WITH_VALUES:
            for _ in range(_WITH_VALUES[word]):
                next(waiting, None)
        elif word not in _FLAGS and not _LETTERS.fullmatch(word):
            raise Refused(f"`{word}` is not an option that it may be given")
    refuse_long(operands[0] if operands else "")
    found = _MODULES.search(operands[0]) if operands else None
    if found:
        raise Refused(f"its filter uses `{found[1]}`")
    return Use(tuple(files))

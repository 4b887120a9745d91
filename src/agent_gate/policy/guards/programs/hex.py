"""xxd: prints a file in hexadecimal; it reads options one to a word, and writes to its second operand."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent_gate.policy.guards.programs.grammar import Refused, Use, names

# Not -r, which makes bytes of a dump. Other spellings mean different things to different programs of this name.
_FLAGS = names("-a -b -C -d -e -E -i -p -ps -plain -u")
_WITH_NUMBER = names("-c -g -l -o -s")
_NUMBER = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|[0-9]+)", re.ASCII)


def xxd(words: Sequence[str], /) -> Use:
    if list(words) in (["-v"], ["-h"]):
        return Use()
    waiting = iter(words)
    for word in waiting:
        if word[:1] != "-" or word == "-":
            return _operands([word, *waiting])
        if word == "--":
            return _operands(list(waiting))
        if word in _WITH_NUMBER:
            value = next(waiting, None)
            if value is None or not _NUMBER.fullmatch(value):
                raise Refused(f"`{word}` needs a number")
        elif word == "-n":
            if next(waiting, None) is None:
                raise Refused("`-n` needs a name")
        elif word not in _FLAGS and not (word[:2] in _WITH_NUMBER and _NUMBER.fullmatch(word[2:])):
            raise Refused(f"`{word}` is not an option that it may be given; give each in a word of its own")
    return Use()


def _operands(words: Sequence[str]) -> Use:
    if len(words) > 1:
        raise Refused(f"`{words[1]}` after the file would be written; options stand before it")
    return Use(tuple(word for word in words if word != "-"), tuple(word for word in words if word == "-"))

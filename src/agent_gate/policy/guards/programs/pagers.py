"""less and more: without a terminal they print the files that they are named, as `cat` does."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent_gate.policy.guards.programs.grammar import Refused, Use, names

_LONG = names(
    "--LINE-NUMBERS --line-numbers --chop-long-lines --RAW-CONTROL-CHARS --raw-control-chars --quit-if-one-screen",
    "--no-init --QUIT-AT-EOF --quit-at-eof --squeeze-blank-lines --ignore-case --IGNORE-CASE --quiet --silent --QUIET",
)


class Pager:
    """Options stand before the files, and none that names a file, a command or a key is among them."""

    def __init__(self, letters: str, long: frozenset[str] = frozenset()) -> None:
        self._letters, self._long = re.compile(f"-[{letters}]+"), long

    def __call__(self, words: Sequence[str], /) -> Use:
        if list(words) in (["--version"], ["--help"]):
            return Use()
        at = 0
        while at < len(words) and (self._letters.fullmatch(words[at]) or words[at] in self._long):
            at += 1
        files = words[at:]
        if files[:1] == ["--"] or files[:1] == ("--",):
            return _reading(files[1:])
        for word in files:
            if word[:1] == "+" or (word[:1] == "-" and word != "-"):
                raise Refused(f"`{word}` is not an option that it may be given before its files")
        return _reading(files)


def _reading(files: Sequence[str]) -> Use:
    """A lone dash is standard input, which is empty here, or a file of that name."""
    return Use(tuple(word for word in files if word != "-"), ("-",) if "-" in files else ())


PAGERS = {"less": Pager("NnSRrFXEesiIqQ", _LONG), "more": Pager("dflpcsu")}

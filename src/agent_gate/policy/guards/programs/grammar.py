"""Grammar of a command line: the options that a program may be given, and what its operands stand for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple, Protocol

from agent_gate.model.bounds import SCRIPT_CHARS_MAX

if TYPE_CHECKING:
    from agent_gate.policy.guards.programs.git_words import Line


class Reach(Enum):
    """Files that a program reads."""

    NAMED = "named"
    """Those that its command line names."""
    BELOW = "below"
    """Those below them, too."""
    ALL = "all"
    """Any: it finds them by itself."""


class Use(NamedTuple):
    """Everything that a command line makes its program touch, as far as reading the line can tell."""

    reads: tuple[str, ...] = ()
    """Paths as written."""
    mentions: tuple[str, ...] = ()
    """Words that are paths where such a file exists, and something else, such as a revision, where none does."""
    reach: Reach = Reach.NAMED
    repository: str = ""
    """The directory from which it looks for a git repository, whose own configuration can name programs."""
    starts_programs: bool = False
    follows: bool = False
    """It prints what comes, and never ends by itself: the end of its time is how it ends."""
    git: Line | None = None
    """For git, its command line taken apart."""


class Refused(Exception):
    """Something in a command line that its program may not be given."""


class Program(Protocol):
    def __call__(self, words: Sequence[str], /) -> Use:
        """Read the words after the program's name; raises Refused."""
        ...


_FLAG, _TEXT, _PATH, _OPTIONAL = "", "=", "@", "?"


class Read(NamedTuple):
    """A command line in its parts."""

    options: tuple[tuple[str, str | None], ...]
    operands: tuple[str, ...]
    paths: tuple[str, ...]
    """The values of options that are paths."""

    def has(self, names: frozenset[str]) -> bool:
        return bool(names) and any(name in names for name, _ in self.options)

    def values(self, *names: str) -> tuple[str, ...]:
        return tuple(value for name, value in self.options if name in names and value is not None)

    @property
    def files(self) -> tuple[str, ...]:
        """The operands that are files; a lone dash is standard input, which is empty here."""
        return tuple(word for word in self.operands if word != "-")


class Syntax:
    """Options by name: `-x` takes no value, `-x=` a text, `-x@` a path, `-x?` one that may be attached; `-#` a number.

    An option that is not listed is refused, and so is a shortened one, because some program may know it as another.
    """

    def __init__(self, *specs: str, common: str = "--help --version") -> None:
        self._specs = (*specs, common)

    @cached_property
    def kinds(self) -> dict[str, str]:
        """The names, each with what its value is."""
        names = " ".join(self._specs).split()
        return {name.rstrip("=@?"): name[len(name.rstrip("=@?")) :] for name in names}

    def read(self, words: Sequence[str]) -> Read:
        options: list[tuple[str, str | None]] = []
        operands: list[str] = []
        paths: list[str] = []
        waiting = iter(words)
        for word in waiting:
            if word[:1] != "-" or word == "-":
                operands.append(word)
                continue
            if word == "--":
                operands.extend(waiting)
                break
            for name, kind, value in _split(self, word):
                if kind in (_TEXT, _PATH) and value is None:
                    value = next(waiting, None)  # noqa: PLW2901 -- the value stands in the next word
                    if value is None:
                        raise Refused(f"`{name}` has no value")
                options.append((name, value))
                if kind == _PATH and value is not None:
                    paths.append(value)
        return Read(tuple(options), tuple(operands), tuple(paths))

    def split(self, word: str) -> list[tuple[str, str, str | None]]:
        """The options in one word, each with its kind and the value that is attached to it."""
        kinds = self.kinds
        kind = kinds.get(word)
        if kind is not None:
            return [(word, kind, None)]
        if word.startswith("--"):
            name, _, value = word.partition("=")
            kind = kinds.get(name)
            if kind is None or kind == _FLAG:
                raise Refused(f"`{name}` is not an option that it may be given")
            return [(name, kind, value)]
        if "-#" in kinds and word[1:].isdigit():
            return [("-#", _FLAG, word[1:])]
        return self._split_letters(word)

    def _split_letters(self, word: str) -> list[tuple[str, str, str | None]]:
        found: list[tuple[str, str, str | None]] = []
        for at, letter in enumerate(word[1:], 1):
            name = f"-{letter}"
            kind = self.kinds.get(name)
            if kind is None:
                raise Refused(f"`{name}` is not an option that it may be given")
            if kind != _FLAG:
                return [*found, (name, kind, word[at + 1 :] or None)]
            found.append((name, kind, None))
        return found


@lru_cache(maxsize=1_024)
def _split(syntax: Syntax, word: str) -> list[tuple[str, str, str | None]]:
    """Agents write the same few options over and over."""
    return syntax.split(word)


class Reader:
    """A program that reads the files that it is named, and prints."""

    def __init__(
        self,
        *specs: str,
        reach: Reach = Reach.NAMED,
        below: str = "",
        default: str = "",
        default_below: str = "",
        texts: int = 0,
        instead_of_texts: str = "",
        operands_max: int | None = None,
        follows: str = "",
        expands_at: bool = False,
        parted: str = "",
    ) -> None:
        """`below` names the options that make it descend; `texts` counts the operands before the first file.

        `follows` names those with which it never ends, `parted` those whose value is never in the same word, and
        `expands_at` says that it takes words out of a file where one begins with `@`.
        """
        self.syntax = Syntax(*specs)
        self._reach, self._below = reach, frozenset(below.split())
        self._default, self._default_below = default, default_below
        self._texts, self._instead = texts, frozenset(instead_of_texts.split())
        self._operands_max = operands_max
        self._follows, self._expands_at = frozenset(follows.split()), expands_at
        self._parted = re.compile(f"-[^-]*[{parted}].") if parted else None

    def __call__(self, words: Sequence[str], /) -> Use:
        self._check(words)
        options, operands, paths = read = self.syntax.read(words)
        _check_count(operands, self._operands_max)
        reach = Reach.BELOW if options and read.has(self._below) else self._reach
        if self._texts and not read.has(self._instead):
            operands = operands[self._texts :]
        if not operands:
            default = self._default_below if reach is Reach.BELOW and self._default_below else self._default
            operands = (default,) if default else ()
        mentions: tuple[str, ...] = ()
        if "-" in operands:
            # Standard input, which is empty here; some programs take it for a file of that name.
            operands, mentions = tuple(word for word in operands if word != "-"), ("-",)
        follows = bool(options) and read.has(self._follows)
        return Use(paths + operands if paths else operands, mentions, reach, follows=follows)

    def _check(self, words: Sequence[str]) -> None:
        if self._expands_at:
            for word in words:
                if word[:1] == "@":
                    raise Refused(f"`{word}` would be read as a file of further words")
        if self._parted:
            for word in words:
                if self._parted.match(word):
                    raise Refused(f"`{word}` holds an option whose value stands in the next word; part them")


class Talker:
    """A program that reads no file: its operands are texts."""

    def __init__(self, *specs: str, operands_max: int | None = None) -> None:
        self.syntax = Syntax(*specs)
        self._operands_max = operands_max

    def __call__(self, words: Sequence[str], /) -> Use:
        read = self.syntax.read(words)
        _check_count(read.operands, self._operands_max)
        return Use(read.paths)


def _check_count(operands: Sequence[str], most: int | None) -> None:
    if most is not None and len(operands) > most:
        raise Refused(f"`{operands[most]}` is one operand too many")


def refuse_long(script: str) -> None:
    """A script in a word is read character by character, and nobody writes a longer one there."""
    if len(script) > SCRIPT_CHARS_MAX:
        raise Refused(f"its script has more than {SCRIPT_CHARS_MAX} characters")


def names(*texts: str) -> frozenset[str]:
    return frozenset(" ".join(texts).split())


def free(words: Sequence[str], /) -> Use:  # noqa: ARG001 -- whatever they are
    """A program whose every word is a text."""
    return Use()

"""git: the words with which a command line is really run, so that git reads them as they were judged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple

from agent_gate.policy.guards.programs.git_revisions import Tracked, commits, entry, is_pathspec, is_plain_path
from agent_gate.policy.guards.programs.grammar import Refused, Syntax

_COMMITS_LISTED_MAX = 100
"""That touch something which is left out: a history may have many thousands."""
_STAGED = frozenset({"--cached", "--staged"})


class Shape(Enum):
    """Kinds of a command's operands."""

    PLAIN = "plain"
    """Nothing that git prints the content of: the words are run as they are."""
    COMMITS = "commits"
    """Commits, then paths."""
    OBJECTS = "objects"
    """Commits or `REV:PATH`, then paths."""
    WALK = "walk"
    """References whose logs are walked, then paths."""
    PATHS = "paths"
    """Paths."""
    BLAME = "blame"
    """A commit, if any, then one path."""


class Word(NamedTuple):
    text: str
    is_option: bool = False


class Line(NamedTuple):
    """A command line of git, taken apart."""

    start: tuple[str, ...]
    """The words before the command, and the command."""
    words: tuple[Word, ...] = ()
    """Options, each with its value attached, and operands, in the order in which they came."""
    after: tuple[str, ...] | None = None
    """The words after `--`, where there is one."""
    shape: Shape = Shape.PLAIN
    filters: bool = False
    """True where what fs.read does not allow must be kept out by pathspecs."""
    commits_max: int | None = None
    """Operands beyond so many are paths."""
    directory: str = ""
    """The directory that `-C` leads to."""
    tells_addresses: bool = False
    outside: bool = False
    """`--no-index`: it compares files that no repository need hold."""

    @property
    def operands(self) -> tuple[str, ...]:
        return tuple(word.text for word in self.words if not word.is_option)

    def tracked(self) -> tuple[Tracked, ...]:
        """Paths that are judged whether or not such a file exists today."""
        if self.shape is Shape.BLAME:
            # It takes its path as it stands.
            return tuple(Tracked(path, path) for path in (self.operands[-1:] if self.after is None else self.after))
        found = [Tracked(path, path) for path in self.after or () if is_plain_path(path)]
        if self.shape is Shape.OBJECTS:
            found += [named[1] for word in self.operands if not is_pathspec(word) and (named := entry(word))]
        return tuple(found)

    def run(self, is_path: Callable[[str], bool], pathspecs: Sequence[str]) -> list[str]:
        """The words after the program; `is_path` tells which operands git takes for paths."""
        assert self.shape is not Shape.PLAIN
        if self.shape is Shape.BLAME:
            return [*self.start, *self._blame()]
        revisions, paths = self._divided(is_path)
        given = iter(revisions)
        before = [text if is_option else next(given, None) for text, is_option in self.words]
        return [*self.start, *(text for text in before if text is not None), "--", *paths, *pathspecs]

    def paths(self, is_path: Callable[[str], bool]) -> tuple[str, ...]:
        """Those that the agent named."""
        return self._divided(is_path)[1]

    def _divided(self, is_path: Callable[[str], bool]) -> tuple[list[str], tuple[str, ...]]:
        """The operands: revisions, each as a commit, and then paths."""
        revisions: list[str] = []
        operands = self.operands
        for at, text in enumerate(operands):
            if len(revisions) == self._most or (self.after is None and is_path(text)):
                return revisions, (*operands[at:], *(self.after or ()))
            revisions.append(self._revision(text))
        return revisions, self.after or ()

    def listing(self, is_path: Callable[[str], bool], pathspecs: Sequence[str]) -> list[str]:
        """Words that list, from the top and each ended by NUL, the paths of which the line would show something."""
        revisions = [text for text in self._divided(is_path)[0] if ":" not in text]
        before, command = self.start[:-1], self.start[-1]
        match command:
            case "show" | "diff-tree" if command == "show" or len(revisions) == 1:
                words = ["show", "--format=", "--name-only", "-z", *revisions]
            case "diff" | "diff-tree" | "diff-index":
                staged = [text for text, is_option in self.words if is_option and text in _STAGED]
                words = ["diff", "--name-only", "-z", *staged, *revisions]
            case "grep" | "ls-files" | "status" | "diff-files":
                words = ["ls-files", "-z", "--full-name", *(f"--with-tree={revision}" for revision in revisions[:1])]
            case _:
                walks = ["-g"] if self.shape is Shape.WALK else []
                words = ["log", f"-n{_COMMITS_LISTED_MAX}", "--format=", "--name-only", "-z", *walks, *revisions]
        return [*before, *words, "--", *pathspecs]

    @property
    def _most(self) -> int | None:
        return 0 if self.shape is Shape.PATHS else self.commits_max

    def check(self) -> None:
        """Raises Refused where no reading of an operand can be judged."""
        if self.shape is Shape.BLAME:
            self._blame()
        elif self.shape is not Shape.PLAIN:
            for text in self.operands[: self._most]:
                if self.after is not None or not is_pathspec(text):
                    self._revision(text)

    def _revision(self, text: str) -> str:
        if self.shape is Shape.OBJECTS and (named := entry(text)):
            return named[0]
        return commits(text, peels=self.shape is not Shape.WALK)

    def _blame(self) -> list[str]:
        operands, after = self.operands, self.after
        revisions, paths = (operands[:-1], operands[-1:]) if after is None else (operands, after)
        if len(paths) != 1 or len(revisions) > 1:
            raise Refused("it takes one file, after the commit if there is one")
        options = [word.text for word in self.words if word.is_option]
        return [*options, *map(commits, revisions), "--", *paths]


def take_apart(syntax: Syntax, words: Sequence[str]) -> tuple[tuple[Word, ...], tuple[str, ...] | None]:
    """Options with their values attached, so that git cannot take a value for an operand; and what follows `--`."""
    found: list[Word] = []
    waiting = iter(words)
    for word in waiting:
        if word == "--":
            return tuple(found), tuple(waiting)
        if word[:1] != "-" or word == "-":
            found.append(Word(word))
            continue
        for name, kind, value in syntax.split(word):
            given = next(waiting) if kind in ("=", "@") and value is None else value
            found += [Word(text, True) for text in _attached(name, given)]
    return tuple(found), None


def _attached(name: str, value: str | None) -> tuple[str, ...]:
    if value is None:
        return (name,)
    if name.startswith("--"):
        return (f"{name}={value}",)
    if name == "-#":
        return (f"-{value}",)
    return (f"{name}{value}",) if value else (name, "")

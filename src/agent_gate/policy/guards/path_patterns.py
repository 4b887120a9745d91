"""Path patterns, matched by segments: `**` crosses directories, `*`, `?` and `[]` stay within one name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from agent_gate.model.errors import ConfigError
from agent_gate.policy.patterns import Matcher, is_glob, matcher

_ANY_NAMES = "**"
_WILD = re.compile(r"[*?\[]")
_CLASS = re.compile(r"\[!?+\]?+[^\]]*+\]")


@dataclass(frozen=True, slots=True)
class PathPattern:
    """A pattern as the policy has it, ready to be tried on real paths."""

    source: str
    fixed: str
    """The part without wildcards, from the root; empty where it begins with `**` and is meant anywhere."""
    matches: Callable[[str], bool]
    wild: tuple[str, ...] = ()
    """The names after the fixed part, wildcards among them."""

    def hides(self, path: str) -> bool:
        """Tell whether a path that it matches has, after the fixed part, a name that begins with a dot."""
        return "/." in path[len(self.fixed) :]


def compile_patterns(
    sources: Iterable[str], working_dir: str, links: Mapping[str, str], *, denies: bool
) -> tuple[PathPattern, ...]:
    """Each pattern as written and, where its fixed part leads through links, as what that really is.

    In a list that denies, to match more is to be safe: there a pattern that begins with `**` is not bound to the
    working directory, and one that ends in a plain name covers what lies below it too.
    """
    patterns = []
    for source in sources:
        names, wild = _parts(source, working_dir, denies)
        fixed = "/".join(names)
        as_written, really = normal(fixed), normal(links.get(fixed, fixed))
        bases = dict.fromkeys((as_written, really))
        patterns += [PathPattern(source, base, _matches(base, wild), tuple(wild)) for base in bases]
    return tuple(patterns)


def fixed_part(source: str, working_dir: str, *, denies: bool) -> str:
    """The text, not yet free of `..` and links, that leads to where the wildcards begin."""
    return "/".join(_parts(source, working_dir, denies)[0])


def mistake_in(source: str) -> str | None:
    """Say why a text is no path pattern."""
    if not source or "\0" in source:
        return "is empty" if not source else "holds a NUL"
    if any("/" in found for found in _CLASS.findall(source)):
        return "has `/` inside of `[]`, which stays within one name; write `[[]` for the character itself"
    names = source.split("/")
    for at, name in enumerate(names):
        if "**" in name and name != _ANY_NAMES:
            return f"has `**` inside of `{name}`, where it means nothing; write `**/*` and the rest of the name"
        if is_glob(name) and ".." in names[at:]:
            return "has `..` after a wildcard, where no real path can have it"
    return None


def literal(path: str) -> str:
    """The pattern that matches one path and nothing else."""
    return _WILD.sub(r"[\g<0>]", path)


def normal(path: str) -> str:
    """Without `.`, `..` and doubled slashes, by text alone; the root is the empty text."""
    names: list[str] = []
    for name in path.split("/"):
        if name == "..":
            del names[-1:]
        elif name not in ("", "."):
            names.append(name)
    return "".join(f"/{name}" for name in names)


def _parts(source: str, working_dir: str, denies: bool) -> tuple[list[str], list[str]]:
    """The names of the fixed part, after the empty one that stands for the root, and the wild rest."""
    mistake = mistake_in(source)
    if mistake:
        raise ConfigError(f"path pattern `{source}` {mistake}")
    names = [name for name in source.split("/") if name not in ("", ".")]
    free = source.startswith("/") or (denies and names[:1] == [_ANY_NAMES])
    if denies and names and not is_glob(names[-1]):
        names.append(_ANY_NAMES)
    wild_from = next((at for at, name in enumerate(names) if is_glob(name)), len(names))
    base = [""] if free else normal(working_dir).split("/")
    return [*base, *names[:wild_from]], names[wild_from:]


def _matches(fixed: str, wild: Sequence[str]) -> Callable[[str], bool]:
    below = f"{fixed}/"
    if not wild:
        return lambda path: path == fixed
    if list(wild) == [_ANY_NAMES]:
        return lambda path: path.startswith(below) or path == fixed
    if not fixed and len(wild) == 3 and wild[0] == wild[2] == _ANY_NAMES and not is_glob(wild[1]):
        return _has_name(wild[1])
    runs = _runs(wild)
    if len(runs) == 2 and not runs[0] and len(runs[1]) == 1:
        return _last_name(below, runs[1][0])

    def match(path: str) -> bool:
        if not path.startswith(below):
            return path == fixed and _fits(runs, ())
        return _fits(runs, path[len(below) :].split("/"))

    return match


def _runs(wild: Sequence[str]) -> list[list[Matcher]]:
    """The names before, between and after each `**`; one run where there is none."""
    runs: list[list[Matcher]] = [[]]
    for name in wild:
        if name == _ANY_NAMES:
            runs.append([])
        else:
            runs[-1].append(matcher(name))
    return runs


def _has_name(name: str) -> Callable[[str], bool]:
    """For `**/.env` in lists that deny, of which there are many."""
    inside, last = f"/{name}/", f"/{name}"
    return lambda path: path.endswith(last) or inside in path


def _last_name(below: str, match: Matcher) -> Callable[[str], bool]:
    """For `**/*.pem`, of which there are as many."""
    return lambda path: path.startswith(below) and bool(match(path.rpartition("/")[2]))


def _fits(runs: Sequence[Sequence[Matcher]], names: Sequence[str]) -> bool:
    """The first run stands at the beginning, the last at the end, and each other as early as it can: none gains later.

    A single run has no `**` beside it and must be all.
    """
    first, last = runs[0], runs[-1]
    at, end = len(first), len(names) - len(last)
    if len(runs) == 1:
        return end == 0 and _is_at(0, first, names)
    if end < at or not _is_at(0, first, names) or not _is_at(end, last, names):
        return False
    for run in runs[1:-1]:
        while not (at + len(run) <= end and _is_at(at, run, names)):
            at += 1
            if at > end:
                return False
        at += len(run)
    return True


def _is_at(at: int, run: Sequence[Matcher], names: Sequence[str]) -> bool:
    for offset, match in enumerate(run):  # noqa: SIM110 -- `all` over a generator takes twice as long
        if not match(names[at + offset]):
            return False
    return True

"""Pathspecs by which git leaves out what `fs.read` does not allow of a repository."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from agent_gate.model.policy import PathGuard, Policy
from agent_gate.policy.guards.path_patterns import PathPattern, compile_patterns
from agent_gate.policy.guards.surroundings import Surroundings
from agent_gate.policy.patterns import is_glob, matcher

_ANY_NAMES = "**"
_EXCLUDED, _INCLUDED = ":(top,exclude,glob)", ":(top,glob)"
_HIDDEN = ("**/.*", "**/.*/**")
# git compares bytes and we compare characters: what stands for one of ours may be several of theirs.
_PIECES = re.compile(
    r"(?P<any>\*)|(?P<kept>\[[a-zA-Z0-9]+(?:-[a-zA-Z0-9])?\])|(?P<one>\?|\[!?+\]?+[^\]]*+\])|(?P<plain>.)", re.DOTALL
)


class NotCovered(Exception):
    """A repository that holds files of which `fs.read` allows only some, and not by name."""


def excluded(section: PathGuard, policy: Policy, around: Surroundings, top: str) -> list[str]:
    """Pathspecs for a work tree at `top`; wider than the policy where git cannot say it as narrowly."""
    allowed = _compiled(section.allow_paths, around, denies=False)
    if not any([_ANY_NAMES] in _rests(pattern, top) for pattern in allowed):
        raise NotCovered
    globs: dict[str, None] = {} if section.allow_hidden else dict.fromkeys(_HIDDEN)
    for pattern in _compiled((*section.deny_paths, *policy.protected_paths), around, denies=True):
        for rest in _rests(pattern, top):
            globs |= dict.fromkeys(_globs(rest))
    if _ANY_NAMES in globs:
        raise NotCovered
    for path in around.secret:
        if path.startswith(f"{top}/"):
            globs |= dict.fromkeys(_with_below(path[len(top) + 1 :]))
    return [f"{_EXCLUDED}{glob}" for glob in globs]


def inverted(pathspecs: Iterable[str]) -> list[str]:
    """Pathspecs of just what these leave out."""
    return [spec.replace(_EXCLUDED, _INCLUDED, 1) for spec in pathspecs]


def _compiled(sources: Iterable[str], around: Surroundings, *, denies: bool) -> tuple[PathPattern, ...]:
    return compile_patterns(sources, around.working_dir, around.links, denies=denies)


def _with_below(path: str) -> Iterator[str]:
    escaped = _escaped(path)
    yield from (escaped, f"{escaped}/**")


def _rests(pattern: PathPattern, top: str) -> list[list[str]]:
    """Rests of a pattern once its beginning has led to `top`, in each of the ways in which it can."""
    plain = pattern.fixed.split("/")[1:]
    names = [*plain, *pattern.wild]
    at = {0}
    for name in top.split("/")[1:]:
        at = {after for place in _with_skipped(at, names) for after in _step(names, len(plain), place, name)}
    globs = [*map(_escaped, plain), *(name if name == _ANY_NAMES else _glob(name) for name in pattern.wild)]
    return [globs[place:] for place in sorted(at) if globs[place:]]


def _with_skipped(at: Iterable[int], names: Sequence[str]) -> set[int]:
    """`**` may stand for no name at all."""
    found = set()
    for place in at:
        found.add(place)
        while place < len(names) and names[place] == _ANY_NAMES:
            place += 1  # noqa: PLW2901 -- further along the same pattern
            found.add(place)
    return found


def _step(names: Sequence[str], fixed: int, place: int, name: str) -> Iterator[int]:
    if place == len(names):
        return
    if place >= fixed and names[place] == _ANY_NAMES:
        yield place
    elif names[place] == name or (place >= fixed and matcher(names[place])(name)):
        yield place + 1


def _globs(rest: Sequence[str]) -> Iterator[str]:
    """As git writes it; a `**` at the end is for what stands before it, too."""
    names = list(rest)
    while len(names) > 1 and names[-1] == names[-2] == _ANY_NAMES:
        names.pop()
    yield "/".join(names)
    if len(names) > 1 and names[-1] == _ANY_NAMES:
        yield "/".join(names[:-1])


def _glob(name: str) -> str:
    """Never narrower than the policy has it."""
    if not is_glob(name):
        return _escaped(name)
    return re.sub(r"\*+", "*", "".join(_piece(found) for found in _PIECES.finditer(name)))


def _piece(found: re.Match[str]) -> str:
    match found.lastgroup:
        case "any" | "one":
            return "*"
        case "kept":
            return found[0]
        case _:
            return _escaped(found[0])


def _escaped(text: str) -> str:
    return re.sub(r"[\\*?\[\]]", r"\\\g<0>", text)

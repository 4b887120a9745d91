"""git: commands that only look at a repository, with options that start nothing and write nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

from agent_gate.policy.guards.programs.git_options import COMMANDS, CONTENTS, FORMATS, NAMES
from agent_gate.policy.guards.programs.git_revisions import is_entry
from agent_gate.policy.guards.programs.git_settings import can_be_told
from agent_gate.policy.guards.programs.git_words import Line, Shape, Word, take_apart
from agent_gate.policy.guards.programs.grammar import Reach, Read, Refused, Syntax, Use, names

# None of those that change how pathspecs are read, because what must not be seen is kept out by pathspecs.
_BEFORE_COMMAND = names("-P --no-pager --no-optional-locks --no-replace-objects")
_LISTS = frozenset({"-l", "--list"})
_FORMAT_OPTIONS = ("--format", "--pretty")
_FORBIDDEN_FORMAT = re.compile(r"%G|%\(\*?signature|%\(\*?raw")
_SUBCOMMANDS = {"stash": ("list", "show"), "reflog": ("show",), "worktree": ("list",)}
_OPERANDS_MAX = {
    "remote": 0,
    "count-objects": 0,
    "version": 0,
    "symbolic-ref": 1,
    "worktree list": 0,
    "stash list": 0,
    "stash show": 1,
    "config": 0,
    "cat-file": 2,
}
_HISTORY = names("log whatchanged reflog rev-list shortlog")
_SHAPES = {
    **dict.fromkeys(("diff", "diff-tree", "diff-index", "grep", "ls-tree"), Shape.COMMITS),
    **dict.fromkeys(("show", "cat-file"), Shape.OBJECTS),
    **dict.fromkeys(("diff-files", "ls-files", "status"), Shape.PATHS),
    **dict.fromkeys(("blame", "annotate"), Shape.BLAME),
}
_COMMITS_MAX = {"ls-tree": 1, "cat-file": 1, "diff-index": 1}
_NO_PATHSPECS = names("ls-tree cat-file blame annotate")
_NONE: frozenset[str] = frozenset()
_SHORTLOG = frozenset({"-c", "-w"})
"""Options that mean something else there."""
_WALKS = frozenset({"-g", "--walk-reflogs"})
_PATTERNS = frozenset({"-e", "-f"})
_TYPES = frozenset({"commit", "tree", "blob", "tag"})
_STASH = re.compile(r"\d+")
_STASH_LIST = ("log", "--format=%gd: %gs", "-g", "--first-parent", "-m", "--ignore-missing")
"""As `git stash list` starts another git."""
_URL = re.compile(r"remote\..+\.(push)?url", re.IGNORECASE)


@cache
def _syntax(command: str) -> Syntax:
    return Syntax(COMMANDS["blame" if command == "annotate" else command], common="")


def git(words: Sequence[str], /) -> Use:
    """Operands are revisions or paths, and git tells them apart by what exists; so does whoever binds the call."""
    if list(words) in (["--version"], ["-v"]):
        return Use()
    at, base = 0, ""
    while at < len(words) and words[at].startswith("-"):
        word = words[at]
        if word == "-C" and at + 1 < len(words):
            base = _joined(base, words[at + 1])
            at += 1
        elif word not in _BEFORE_COMMAND:
            raise Refused(f"`{word.partition('=')[0]}` is not an option that it may be given")
        at += 1
    if at >= len(words):
        raise Refused("it has no command")
    command, rest = _command(words[at], words[at + 1 :])
    syntax = _syntax(command)
    read = syntax.read(rest)
    _check(command, read)
    if command == "version":
        return Use()
    line = _line(command, words[: at + 1], read, *take_apart(syntax, rest), base)
    line.check()
    return _use(line, read, base)


def _use(line: Line, read: Read, base: str) -> Use:
    paths = tuple(_joined(base, path) for path in read.paths)
    mentions = tuple(_joined(base, word) for operand in read.operands for word in _mentioned(operand))
    if line.outside:
        return Use((*paths, *mentions, *_start(base)), reach=Reach.BELOW, repository=base or ".", git=line)
    return Use((*paths, *_start(base)), mentions, Reach.ALL, repository=base or ".", git=line)


def _command(command: str, words: Sequence[str]) -> tuple[str, Sequence[str]]:
    """The command, with its own command where it needs one, and what follows."""
    known = _SUBCOMMANDS.get(command)
    if known is None:
        if command not in COMMANDS:
            raise Refused(f"`git {command}` is not among the commands that only look at a repository")
        return command, words
    if command == "reflog" and (not words or words[0].startswith("-")):
        return command, words
    if not words or words[0] not in known:
        raise Refused(f"of `git {command}` only {' and '.join(known)} may be used")
    return (command if command == "reflog" else f"{command} {words[0]}"), words[1:]


def _line(
    command: str,
    start: Sequence[str],
    read: Read,
    words: tuple[Word, ...],
    after: tuple[str, ...] | None,
    base: str,
) -> Line:
    tells = (command == "remote" and bool(read.options)) or any(map(_URL.fullmatch, read.values("--get", "--get-all")))
    line = Line(tuple(start), words, after, directory=base, tells_addresses=tells)
    if command == "stash show":
        return _stash_show(line, read)
    if command == "stash list":
        shown = _history(line._replace(start=(*start[:-1], *_STASH_LIST), shape=Shape.WALK), read)
        return shown._replace(words=(*words, Word("refs/stash")), after=(), shape=Shape.WALK)
    if command == "diff" and read.has(frozenset({"--no-index"})):
        return line._replace(outside=True)
    if command in _HISTORY:
        return _history(line, read, walks=command == "reflog", other=_SHORTLOG if command == "shortlog" else _NONE)
    shape = _SHAPES.get(command, Shape.PLAIN)
    filters = shape is not Shape.PLAIN and command not in _NO_PATHSPECS
    line = line._replace(shape=shape, filters=filters, commits_max=_COMMITS_MAX.get(command))
    if command == "grep":
        return _grep(line, read)
    if command == "show" and after is None and read.operands and all(map(is_entry, read.operands)):
        return line._replace(filters=False)
    if command == "cat-file" and len(read.operands) == 2 and read.operands[0] in _TYPES:
        return _typed(line)
    return line


def _history(line: Line, read: Read, *, walks: bool = False, other: frozenset[str] = _NONE) -> Line:
    """Without an option that shows contents it is run as it is: pathspecs would leave out whole commits."""
    contents = [name for name, _ in read.options if name in CONTENTS and name not in other]
    if read.has(frozenset({"--follow"})):
        if not NAMES.issuperset(contents):
            raise Refused("`--follow` may lead to a file that must not be seen; leave it out, or show names only")
        return line
    if not contents:
        return line
    is_walk = walks or line.shape is Shape.WALK or read.has(_WALKS)
    return line._replace(shape=Shape.WALK if is_walk else Shape.COMMITS, filters=True)


def _grep(line: Line, read: Read) -> Line:
    if read.has(_PATTERNS):
        return line
    at = next((at for at, word in enumerate(line.words) if not word.is_option), None)
    if at is None:
        raise Refused("it has no pattern before `--`; give one with -e")
    options = [word for word in line.words if word.is_option]
    operands = [word for word in line.words[at + 1 :] if not word.is_option]
    return line._replace(words=(*options, Word("-e", True), Word(line.words[at].text, True), *operands))


def _typed(line: Line) -> Line:
    """`git cat-file commit HEAD`."""
    at = next(at for at, word in enumerate(line.words) if not word.is_option)
    return line._replace(words=(*line.words[:at], line.words[at]._replace(is_option=True), *line.words[at + 1 :]))


def _stash_show(line: Line, read: Read) -> Line:
    """As `git diff` from the commit that was stashed upon: `git stash show` takes no pathspecs."""
    named = read.operands[0] if read.operands else "0"
    stash = f"stash@{{{named}}}" if _STASH.fullmatch(named) else named
    options = tuple(word for word in line.words if word.is_option)
    shown = options if any(name in FORMATS for name, _ in read.options) else (*options, Word("--stat", True))
    words = (*shown, Word(f"{stash}^1"), Word(stash))
    return line._replace(start=(*line.start[:-1], "diff"), words=words, after=(), shape=Shape.COMMITS, filters=True)


def _mentioned(operand: str) -> Iterator[str]:
    """`main:a.txt` names a file of an earlier time; where there is one of that name today, it is judged as well."""
    revision, _, path = operand.partition(":")
    if operand:
        yield operand
    if revision and path:
        yield path


def _start(base: str) -> tuple[str, ...]:
    return (base,) if base else ()


def _joined(base: str, path: str) -> str:
    return path if path.startswith("/") or not base else f"{base}/{path}"


def _check(command: str, read: Read) -> None:
    most = _OPERANDS_MAX.get(command)
    if most is not None and len(read.operands) > most:
        raise Refused(f"`git {command} {read.operands[most]}` would change something, or is more than it takes")
    if command in ("branch", "tag") and read.operands and not read.has(_LISTS):
        raise Refused(f"`git {command} {read.operands[0]}` would make one; add --list to look for it")
    if command == "config":
        _check_settings(read.values("--get", "--get-all"))
    for value in read.values(*_FORMAT_OPTIONS):
        if _FORBIDDEN_FORMAT.search(value):
            raise Refused("a format with signatures or raw objects would show, or start, what it must not")


def _check_settings(keys: Sequence[str]) -> None:
    if len(keys) != 1:
        raise Refused("of its settings one at a time may be asked for, with --get KEY")
    if not can_be_told(keys[0]):
        raise Refused(f"the setting `{keys[0]}` is not among those that may be shown")

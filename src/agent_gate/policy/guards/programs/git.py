"""git: commands that only look at a repository, with options that start nothing and write nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

from agent_gate.policy.guards.programs.git_options import COMMANDS
from agent_gate.policy.guards.programs.grammar import Reach, Read, Refused, Syntax, Use, names

_BEFORE_COMMAND = names(
    "-P --no-pager --no-optional-locks --literal-pathspecs --glob-pathspecs --noglob-pathspecs --icase-pathspecs",
    "--no-replace-objects",
)
_LISTS = frozenset({"-l", "--list"})
_FORMATS = ("--format", "--pretty")
_SIGNATURE = re.compile(r"%G|%\(signature")
_SUBCOMMANDS = {"stash": ("show",), "reflog": ("show",)}
"""`git stash list` starts another git; `git log -g refs/stash` says the same."""
_OPERANDS_MAX = {"remote": 0, "count-objects": 0, "version": 0, "symbolic-ref": 1}


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
    command = words[at]
    if command not in COMMANDS:
        raise Refused(f"`git {command}` is not among the commands that only look at a repository")
    read = _syntax(command).read(_without_subcommand(command, words[at + 1 :]))
    _check(command, read)
    if command == "version":
        return Use()
    paths = tuple(_joined(base, path) for path in read.paths)
    mentions = tuple(_joined(base, word) for operand in read.operands for word in _mentioned(operand))
    if read.has(frozenset({"--no-index"})) and command == "diff":
        return Use((*paths, *mentions, *_start(base)), reach=Reach.BELOW, repository=base or ".")
    return Use((*paths, *_start(base)), mentions, Reach.ALL, repository=base or ".")


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


def _without_subcommand(command: str, words: Sequence[str]) -> Sequence[str]:
    known = _SUBCOMMANDS.get(command)
    if known is None or (command == "reflog" and (not words or words[0].startswith("-"))):
        return words
    if not words or words[0] not in known:
        raise Refused(f"of `git {command}` only {' and '.join(known)} may be used")
    return words[1:]


def _check(command: str, read: Read) -> None:
    most = _OPERANDS_MAX.get(command)
    if most is not None and len(read.operands) > most:
        raise Refused(f"`git {command} {read.operands[most]}` would change something")
    if command in ("branch", "tag") and read.operands and not read.has(_LISTS):
        raise Refused(f"`git {command} {read.operands[0]}` would make one; add --list to look for it")
    for value in read.values(*_FORMATS):
        if _SIGNATURE.search(value):
            raise Refused("a format with signatures would start a program that verifies them")

"""Looks a command up: its words, the program's file, and the files that its words name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from agent_gate.model.bounds import ARGV_WORDS_MAX, WORD_BYTES_MAX
from agent_gate.model.errors import ToolError
from agent_gate.model.policy import CommandGuard, Policy
from agent_gate.model.tool import Json
from agent_gate.policy.encoding import ArgumentError
from agent_gate.policy.guards.command_aliases import aliases_of_command
from agent_gate.policy.guards.command_text import TextError
from agent_gate.policy.guards.commands import argv_of, is_listed, signature_of, use_of
from agent_gate.policy.guards.programs import Refused, Use
from agent_gate.policy.guards.surroundings import Surroundings
from agent_gate.resolve.paths import PathResolver, Target
from agent_gate.resolve.programs import Executable, NotFound, find_program
from agent_gate.resolve.repository import Repository
from agent_gate.resolve.scripts import needs_of
from agent_gate.services.shell.repositories import LeftOut, look_at_repository

_WAYS = ("argv", "cmd", "command")


@dataclass(slots=True)
class Looked:
    """Everything that was found, held open until released."""

    argv: tuple[str, ...]
    signature: str
    cwd: str
    """The directory in which the command runs; as it really is where the agent named one."""
    executable: Executable | None = None
    use: Use | None = None
    targets: dict[str, Target] = field(default_factory=dict)
    resources: dict[str, Json] = field(default_factory=dict)
    found: dict[str, Json] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()
    """The same command in its plain spelling, where it has another."""
    repository: Repository | None = None
    """The one that git works in, if its own things may be shown to it."""
    words_run: tuple[str, ...] = ()
    """Those that are really run: the agent's own, unless the gate has changed or added some."""
    left_out: LeftOut | None = None
    """A command that finds out what the added words keep out of what git shows."""

    def __post_init__(self) -> None:
        self.words_run = self.words_run or self.argv

    def release(self) -> None:
        if self.executable is not None:
            self.executable.descriptor.leave()
        for target in self.targets.values():
            target.release()
        self.executable = None
        self.targets = {}


def look(
    args: Mapping[str, Json],
    policy: Policy,
    resolver: PathResolver,
    working_dir: str,
    around: Surroundings | None = None,
) -> Looked:
    """May wait for a disk. ToolError 2002 for what is no command; whether it may run is for the guard to say."""
    argv = _words(args)
    try:
        signature = signature_of(argv)
    except ArgumentError as error:
        raise ToolError(str(error), code=2002, suggestion=error.suggestion) from None
    looked = Looked(argv, signature, working_dir, aliases=aliases_of_command(argv))
    section = policy.guards.shell_run
    if section is None:
        return looked
    try:
        _find(looked, args.get("cwd"), section, resolver)
        if looked.use is not None and looked.use.repository:
            look_at_repository(looked, looked.use, policy, around or Surroundings(working_dir))
    except BaseException:
        looked.release()
        raise
    return looked


def _words(args: Mapping[str, Json]) -> tuple[str, ...]:
    given = [name for name in _WAYS if name in args]
    if len(given) != 1:
        raise ToolError(
            f"`shell.run` needs one of {', '.join(_WAYS)}, not {' and '.join(given) or 'none of them'}",
            code=2002,
            suggestion="give the words as a list in argv",
        )
    try:
        words = tuple(argv_of(args))
    except TextError as error:
        raise ToolError(str(error), code=2002, suggestion="close it, or give the words as a list in argv") from None
    if not words or not words[0]:
        raise ToolError("the command names no program", code=2002, suggestion="begin with the name of a program")
    if any("\0" in word for word in words):
        raise ToolError("a word of the command holds a NUL", code=2002, suggestion="leave it out")
    longest = max(len(word.encode("utf-8", "surrogatepass")) for word in words)
    if len(words) > ARGV_WORDS_MAX or longest > WORD_BYTES_MAX:
        raise ToolError(
            f"the command has {len(words)} words, the longest of {longest} bytes;"
            f" {ARGV_WORDS_MAX} of {WORD_BYTES_MAX} can be started",
            code=2002,
            suggestion="make several calls",
        )
    return words


def _find(looked: Looked, cwd: str | None, section: CommandGuard, resolver: PathResolver) -> None:
    if cwd is not None:
        target = looked.targets["."] = resolver.resolve(_absolute(looked.cwd, cwd))
        looked.cwd = target.path
        looked.resources["cwd"] = target.path
    _find_program(looked, section)
    path = looked.executable.path if looked.executable is not None else ""
    if section.otherwise == "ask" or is_listed(looked.argv[0], path, section):
        with suppress(Refused):
            looked.use = use_of(looked.argv, section, path)
    if looked.use is not None:
        _find_paths(looked, looked.use, resolver)
    _describe(looked)


def _find_program(looked: Looked, section: CommandGuard) -> None:
    try:
        looked.executable = find_program(looked.argv[0], section.trusted_dirs)
    except NotFound as why:
        looked.found["executable"] = str(why)
    else:
        looked.resources |= looked.executable.identity
        looked.aliases = aliases_of_command(looked.argv, looked.executable.path)
        needs = needs_of(looked.executable, section.trusted_dirs) if section.sandbox != "off" else []
        if needs:
            looked.found["needs"] = [need._asdict() for need in needs]


def _find_paths(looked: Looked, use: Use, resolver: PathResolver) -> None:
    for word in (*use.reads, *_named(use.repository)):
        if word not in looked.targets:
            looked.targets[word] = resolver.resolve(_absolute(looked.cwd, word))
    for word in use.mentions:
        if word not in looked.targets:
            # What is no path at all is a word of another kind.
            with suppress(ToolError):
                looked.targets[word] = resolver.resolve(_absolute(looked.cwd, word))


def _named(word: str) -> Iterable[str]:
    return (word,) if word else ()


def _absolute(cwd: str, word: str) -> str:
    """As the command will mean it; a directory is named without a slash at its end."""
    path = word if word.startswith("/") else f"{cwd}/{word}"
    while path.endswith(("/", "/.")):
        path = path.rstrip("/").removesuffix("/.")
    return path or "/.."


def _describe(looked: Looked) -> None:
    if looked.targets:
        looked.resources["paths"] = {word: {"path": t.path, **t.identity} for word, t in looked.targets.items()}
        # Whatever the size of what it reads, the output of a command is bounded.
        looked.found["paths"] = {
            word: {key: value for key, value in target.found.items() if key != "size"}
            for word, target in looked.targets.items()
        }

"""tar: listing what is in an archive, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from agent_gate.policy.guards.programs.grammar import Read, Refused, Syntax, Use, names

# None of the options that name a program; those for a way of packing stand for programs that are known.
_SYNTAX = Syntax(
    "-t -v -f@ -R -z -j -J -a --list --verbose --file@ --force-local --full-time --utc --numeric-owner --block-number",
    "--wildcards --no-wildcards --ignore-case --no-ignore-case --anchored --no-anchored --wildcards-match-slash",
    "--no-wildcards-match-slash --quoting-style= --occurrence? --strip-components= --show-transformed-names",
    "--ignore-zeros --no-recursion --recursion --gzip --gunzip --ungzip --bzip2 --xz --lzma --zstd --auto-compress",
)
_LIST = frozenset({"-t", "--list"})
_PACKED = names("-z -j -J -a --gzip --gunzip --ungzip --bzip2 --xz --lzma --zstd --auto-compress")
_PACKED_NAMES = (".gz", ".tgz", ".bz2", ".tbz", ".tbz2", ".xz", ".txz", ".lzma", ".zst", ".tzst")
_OLD_STYLE = frozenset("tvfzjJ")


def tar(words: Sequence[str], /) -> Use:
    words = _new_style(words)
    if words in (["--version"], ["--help"]):
        return Use()
    read = _SYNTAX.read(words)
    if not read.has(_LIST):
        raise Refused("it may only list an archive (-t)")
    if not read.has(frozenset({"--force-local"})) and any(":" in path for path in read.paths):
        raise Refused("an archive with `:` in its name would be sought on another machine; add --force-local")
    if not read.paths:
        raise Refused("it has no archive (-f), and would look for one on a tape")
    archives = tuple(path for path in read.paths if path != "-")
    return Use(archives, ("-",) if "-" in read.paths else (), starts_programs=_is_packed(read))


def _is_packed(read: Read) -> bool:
    """Tell whether tar starts the program that unpacks: found in the trusted directories, it reads what tar reads."""
    return read.has(_PACKED) or any(path.lower().endswith(_PACKED_NAMES) for path in read.paths)


def _new_style(words: Sequence[str]) -> list[str]:
    """`tvf x` means `-t -v -f x`: letters without a dash, whose values follow in order."""
    if not words or words[0].startswith("-"):
        return list(words)
    letters, rest = words[0], list(words[1:])
    unknown = sorted(set(letters) - _OLD_STYLE)
    if unknown:
        raise Refused(f"it may only list an archive (t, v, f, z, j and J), not `{unknown[0]}`")
    if letters.count("f") > 1:
        raise Refused("it may list one archive at a time")
    named = ["-f", *rest[:1]] if "f" in letters else []
    return [*(f"-{letter}" for letter in letters if letter != "f"), *named, *(rest[1:] if named else rest)]

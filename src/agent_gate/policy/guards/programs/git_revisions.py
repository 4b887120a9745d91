"""git: words that name commits, told apart from those that name something else that git holds."""

from __future__ import annotations

import re
from typing import NamedTuple

from agent_gate.policy.guards.programs.grammar import Refused

COMMIT = "^{commit}"
_NAME = r"[^\s~^:?*\[\\{}\x00-\x1f\x7f-][^\s~^:?*\[\\{}\x00-\x1f\x7f]*"
_STEP = r"~\d*|\^\d*|@\{[^{}]*\}|\^\{(?:commit)?\}"
_PARENTS = r"\^@|\^!|\^-\d*"
_REVISION = re.compile(rf"(\^?)((?:{_NAME}|@\{{[^{{}}]*\}})(?:{_STEP})*?)({_PARENTS})?")
_STAGE = re.compile(r"\A[0-3]:")
_MAGIC = (":(", ":!", ":^", ":/")
_WILD = re.compile(r"[*?\[]")


class Tracked(NamedTuple):
    """A path of the repository, of whatever time, that a word names."""

    word: str
    path: str
    from_top: bool = False
    """Otherwise from the directory in which git runs."""


def is_pathspec(word: str) -> bool:
    """Tell whether git takes a word for a pattern of paths even where no file has that name."""
    return word.startswith(_MAGIC) or bool(_WILD.search(word))


def is_plain_path(word: str) -> bool:
    return bool(word) and not word.startswith(":") and not _WILD.search(word) and "\\" not in word


def commits(word: str, *, peels: bool = True) -> str:
    """A word that names commits, such that git takes it for nothing else; raises Refused for any other."""
    if "..." in word:
        first, second = word.split("...", 1)
        return f"{_side(first, word, peels)}...{_side(second, word, peels)}"
    if ".." in word:
        first, second = word.split("..", 1)
        return f"{_side(first, word, peels)}..{_side(second, word, peels)}"
    return _one(word, word, peels)


def is_entry(word: str) -> bool:
    """Tell whether a word names what a commit or the index holds under a path, and nothing else."""
    return not is_pathspec(word) and bool(_split(word)[1])


def entry(word: str) -> tuple[str, Tracked] | None:
    """For `REV:PATH`, `:PATH` and `:N:PATH`: the word with a commit for its revision, and the path; None for others."""
    revision, colon, path = _split(word)
    if not colon:
        return None
    if ".." in word:
        raise Refused(f"`{word}` may be read as a range; name the path from the top of the repository")
    if not revision:
        return word, _tracked(word, _STAGE.sub("", path))
    return f"{_one(revision, word, True)}:{path}", _tracked(word, path)


def _tracked(word: str, path: str) -> Tracked:
    return Tracked(word, path, from_top=not path.startswith("./"))


def _split(word: str) -> tuple[str, str, str]:
    """At the first colon outside of braces, as git does."""
    depth = 0
    for at, character in enumerate(word):
        if character == "{":
            depth += 1
        elif character == "}" and depth:
            depth -= 1
        elif character == ":" and not depth:
            return word[:at], ":", word[at + 1 :]
    return word, "", ""


def _side(revision: str, word: str, peels: bool) -> str:
    return _one(revision, word, peels) if revision else ""


def _one(revision: str, word: str, peels: bool) -> str:
    found = _REVISION.fullmatch(revision)
    if found is None or ".." in revision:
        raise Refused(f"`{word}` is not a plain name of a commit; name commits by branch, tag or id, files after `--`")
    negation, name, parents = found.groups(default="")
    if not peels or name.endswith(COMMIT):
        return revision
    return f"{negation}{name}{COMMIT}{parents}"

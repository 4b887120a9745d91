"""Deny tokens: words and pieces of text that no command may hold."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def _is_words(token: str) -> bool:
    return all(character.isalnum() or character in "-_. " for character in token)


class DenyTokens:
    """A token of letters, digits, `-`, `_`, `.` and blanks means whole words; any other means its text, anywhere."""

    def __init__(self, tokens: Iterable[str]) -> None:
        pieces = []
        words: dict[str, list[tuple[tuple[str, ...], str]]] = {}
        for token in tokens:
            if not _is_words(token):
                pieces.append(token)
            elif token.split():
                parts = tuple(token.split())
                words.setdefault(parts[0], []).append((parts, token))
        self._words = words
        self._pieces = re.compile("|".join(map(re.escape, pieces))) if pieces else None

    def found_in(self, argv: Sequence[str], text: str = "") -> str | None:
        """The token that a command holds; `text` is what it was written as, where it was given as text."""
        if self._pieces is not None:
            found = self._pieces.search("\0".join((text, *argv)) if text else "\0".join(argv))
            if found:
                return found.group()
        if not self._words:
            return None
        named = argv[0].rpartition("/")[2]
        return self._words_in(argv) or (self._words_in((named, *argv[1:])) if named != argv[0] else None)

    def _words_in(self, argv: Sequence[str]) -> str | None:
        for at, word in enumerate(argv):
            for parts, token in self._words.get(word, ()):
                if tuple(argv[at : at + len(parts)]) == parts:
                    return token
        return None

"""Text of agents as people should see it: nothing in it can hide or move what stands beside it."""

from __future__ import annotations

import unicodedata

_KEPT = frozenset("\n\t")
_HIDDEN_CATEGORIES = frozenset(("Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"))
_BLANKS = frozenset("\u115f\u1160\u3164\uffa0\u2800\u034f\u17b4\u17b5")
"""Letters and marks that show nothing."""


def visible(text: str) -> str:
    """Control, format and other invisible characters written out as `U+202E`; line breaks stay."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_shown, text))


def _shown(character: str) -> str:
    if character in _KEPT:
        return character
    if unicodedata.category(character) in _HIDDEN_CATEGORIES or character in _BLANKS or _is_selector(character):
        return f"U+{ord(character):04X}"
    return character


def _is_selector(character: str) -> bool:
    return "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef"

"""Characters that show nothing, or that are told apart from nothing, as a table of Unicode's properties."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right

UNICODE = "17.0"
"""The version of the table below. What is added later is unassigned to this Python, and so counts as invisible."""

DEFAULT_IGNORABLE = (
    (0x00AD, 0x00AD),
    (0x034F, 0x034F),
    (0x061C, 0x061C),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x200B, 0x200F),
    (0x202A, 0x202E),
    (0x2060, 0x206F),
    (0x3164, 0x3164),
    (0xFE00, 0xFE0F),
    (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFF8),
    (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A),
    (0xE0000, 0xE0FFF),
)
"""DerivedCoreProperties.txt, as ranges."""

_EMPTY_SHAPES = ((0x2800, 0x2800), (0x2D7F, 0x2D7F), (0xFFFC, 0xFFFC), (0x16FE4, 0x16FE4), (0x1D159, 0x1D159))
"""Letters, marks and signs whose picture is empty though no property says so: a blank of Braille, fillers, joiners."""

_RANGES = sorted((*DEFAULT_IGNORABLE, *_EMPTY_SHAPES))
_FIRSTS = [first for first, _ in _RANGES]
_CATEGORIES = frozenset(("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"))


def is_invisible(character: str) -> bool:
    """Tell whether a reader could miss it: controls, format characters, unassigned or private ones, empty shapes."""
    if unicodedata.category(character) in _CATEGORIES:
        return True
    place = bisect_right(_FIRSTS, ord(character)) - 1
    return place >= 0 and ord(character) <= _RANGES[place][1]

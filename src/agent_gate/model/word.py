"""Enums of words that entries and answers tell."""

from __future__ import annotations

from enum import Enum


class Word(Enum):
    """`text` is the value, without the two functions that Python 3.11 calls for `value`: every call tells a few."""

    def __init__(self, text: str) -> None:
        self.text = text

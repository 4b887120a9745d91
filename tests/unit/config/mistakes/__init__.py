"""Mistakes that people make in files, and what they are told: texts, each followed by its `=> ` answers.

An answer that ends in `…` goes on with a list that grows with the settings.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path


def mistakes(name: str) -> list[tuple[str, tuple[str, ...]]]:
    """The texts of a collection, each with its answers."""
    blocks = (Path(__file__).parent / f"{name}.txt").read_text().split("\n\n")
    return [_mistake(block.strip("\n").split("\n")) for block in blocks]


def _mistake(lines: list[str]) -> tuple[str, tuple[str, ...]]:
    answers = tuple(line.removeprefix("=> ") for line in lines if line.startswith("=> "))
    assert answers
    return "\n".join(lines[: -len(answers)]) + "\n", answers


def as_far_as(told: Sequence[str], answers: Sequence[str]) -> tuple[str, ...]:
    """Cut what was told where its answer ends in `…`."""
    ends = [len(answer) - 1 if answer.endswith("…") else None for answer in answers]
    paired = zip_longest(told, ends)
    return tuple(text if end is None else f"{text[:end]}…" for text, end in paired if text is not None)

"""Mistakes that people make in files, and what they are told: texts, each followed by its `=> ` answers."""

from __future__ import annotations

from pathlib import Path


def mistakes(name: str) -> list[tuple[str, tuple[str, ...]]]:
    """The texts of a collection, each with its answers."""
    blocks = (Path(__file__).parent / f"{name}.txt").read_text().split("\n\n")
    return [_mistake(block.strip("\n").split("\n")) for block in blocks]


def _mistake(lines: list[str]) -> tuple[str, tuple[str, ...]]:
    answers = tuple(line.removeprefix("=> ") for line in lines if line.startswith("=> "))
    assert answers
    return "\n".join(lines[: -len(answers)]) + "\n", answers

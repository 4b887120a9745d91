"""The bench still runs, on a handful of everything: its figures are for `make bench` to judge, not for a test."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from bench import (
    answers,
    chain,
    commands,
    figure,
    home_assistant,
    ledger,
    paths,
    runs,
    stalls,
    state,
    trial,
    urls,
    views,
)
from bench.figure import Figure


@pytest.fixture(autouse=True)
def a_handful(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, value in (
        (figure, "TURNS", 1),
        (answers, "ANSWERS", 2),
        (answers, "ROUNDS", 1),
        (chain, "REQUESTS", 2),
        (home_assistant, "CALLS", 2),
        (home_assistant, "WARM_UP", 0),
        (home_assistant, "CHANGES_PER_S", 50),
        (home_assistant, "CHANGES_S", 1),
        (ledger, "CALLS", 10),
        (ledger, "CALLERS", 2),
        (ledger, "ROUNDS", 1),
        (runs, "STEPS", 3),
        (runs, "ROUNDS", 1),
        (runs, "READS", 3),
        (stalls, "BYTES", 200),
        (stalls, "WORD_BYTES", 40),
        (stalls, "SCRIPT_CHARS", 20),
        (stalls, "ROUNDS", 1),
        (state, "CALLS", 2),
        (state, "CALLERS", 2),
        (state, "ROUNDS", 1),
        (trial, "CALLS", 24),
        (trial, "CALLERS", 2),
        (views, "SHORT", 10),
        (views, "LONG", 100),
        (views, "FEW_CALLS", 6),
        (views, "MANY_CALLS", 60),
    ):
        monkeypatch.setattr(module, name, value)


@pytest.mark.parametrize(
    ("figures", "count"),
    [
        (lambda _: urls.figures(), 1),
        (lambda _: commands.figures(), 2),
        (lambda _: chain.figures(), 2),
        (paths.figures, 2),
        (ledger.figures, 5),
        (runs.figures, 3),
        (trial.figures, 2),
        (answers.figures, 1),
        (home_assistant.figures, 5),
        (stalls.figures, 1),
        (state.figures, 2),
        (views.figures, 2),
    ],
    ids=[
        "urls",
        "commands",
        "chain",
        "paths",
        "ledger",
        "runs",
        "trial",
        "answers",
        "home_assistant",
        "stalls",
        "state",
        "views",
    ],
)
def test_each_part_measures_what_it_promises(
    figures: Callable[[Path], Iterable[Figure]], count: int, tmp_path: Path
) -> None:
    found = list(figures(tmp_path))
    assert len({each.name for each in found}) == len(found) == count
    assert all(each.ours > 0 and each.reference > 0 for each in found)

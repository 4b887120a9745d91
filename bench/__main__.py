"""`make bench`: measures everything, prints a table and writes bench/results.json."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench import (
    answers,
    chain,
    commands,
    home_assistant,
    ledger,
    paths,
    policy_agent,
    rules,
    runs,
    server,
    startup,
    trial,
    urls,
)
from bench.figure import Figure

HERE = Path(__file__).parent


def main() -> None:
    with tempfile.TemporaryDirectory(dir=_real_disk(), prefix=".bench-") as name:
        figures = list(_measure(Path(name)))
    (HERE / "results.json").write_text(json.dumps([figure.to_json() for figure in figures], indent=1) + "\n")
    missed = [figure.name for figure in figures if not figure.met]
    print(
        f"\n{len(figures) - len(missed)} of {len(figures)} goals met"
        + "".join(f"\n  missed: {name}" for name in missed)
    )


def _real_disk() -> Path:
    """Beside the project, not in /tmp: that may be memory, where durability costs nothing."""
    return HERE.parent


def _measure(directory: Path) -> Iterator[Figure]:
    print(f"{'figure':<48}{'ours':>14}{'reference':>14}  {'unit':<6}{'ratio':>9}  goal")
    for part in (
        rules.figures(),
        paths.figures(directory),
        urls.figures(),
        commands.figures(),
        chain.figures(),
        policy_agent.figures(directory),
        ledger.figures(directory),
        runs.figures(directory),
        trial.figures(directory),
        answers.figures(directory),
        server.figures(directory),
        home_assistant.figures(directory),
        startup.figures(directory),
    ):
        for figure in part:
            print(_row(figure), flush=True)
            yield figure


def _row(figure: Figure) -> str:
    mark = "met" if figure.met else "MISSED"
    return (
        f"{figure.name:<48}{figure.ours:>14,.2f}{figure.reference:>14,.2f}  {figure.unit:<6}{figure.ratio:>9.2f}"
        f"  {figure.goal}: {mark}   ({figure.reference_is})"
    )


if __name__ == "__main__":
    sys.exit(main())

"""`make bench`: measures everything, prints a table and writes bench/results.json; ARGS="server ledger" picks parts.

Each part has a process of its own: what another one left in memory would slow it down.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib import import_module
from inspect import signature
from pathlib import Path
from subprocess import PIPE, Popen

from bench.figure import Figure

HERE = Path(__file__).parent
PARTS = (
    "rules", "paths", "urls", "commands", "transactions", "chain", "policy_agent", "ledger", "views", "runs", "trial",
    "answers", "drawing", "server", "home_assistant", "stalls", "startup",
)  # fmt: skip


def main(words: Sequence[str]) -> int:
    if words[:1] == ["--part"]:
        _measure(words[1], Path(words[2]))
        return 0
    unknown = [word for word in words if word not in PARTS]
    if unknown:
        print(f"there is no part {', '.join(unknown)}; there are {', '.join(PARTS)}", file=sys.stderr)
        return 2
    figures = list(_figures(words or PARTS))
    if not words:
        (HERE / "results.json").write_text(json.dumps([figure.to_json() for figure in figures], indent=1) + "\n")
    missed = [figure.name for figure in figures if not figure.met]
    print(
        f"\n{len(figures) - len(missed)} of {len(figures)} goals met"
        + "".join(f"\n  missed: {name}" for name in missed)
    )
    return 0


def _figures(parts: Sequence[str]) -> Iterator[Figure]:
    """Printed as they come."""
    print(f"{'figure':<48}{'ours':>14}{'reference':>14}  {'unit':<6}{'ratio':>9}  goal")
    # Beside the project, not in /tmp: that may be memory, where durability costs nothing.
    with tempfile.TemporaryDirectory(dir=HERE.parent, prefix=".bench-") as directory:
        for part in parts:
            with Popen([sys.executable, "-m", "bench", "--part", part, directory], stdout=PIPE, text=True) as process:
                assert process.stdout is not None
                for line in process.stdout:
                    figure = Figure(**json.loads(line))
                    print(_row(figure), flush=True)
                    yield figure
            if process.returncode:
                raise SystemExit(f"the part {part} failed")


def _measure(part: str, directory: Path) -> None:
    figures = import_module(f"bench.{part}").figures
    for figure in figures(directory) if signature(figures).parameters else figures():
        print(json.dumps(figure.to_json()), flush=True)


def _row(figure: Figure) -> str:
    mark = "met" if figure.met else "MISSED"
    return (
        f"{figure.name:<48}{figure.ours:>14,.2f}{figure.reference:>14,.2f}  {figure.unit:<6}{figure.ratio:>9.2f}"
        f"  {figure.goal}: {mark}   ({figure.reference_is})"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""`python -m tests.attacks FILE.jsonl [--class PREFIX]`: a line for each case that fails, and the score."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from tests.attacks.cases import load_cases
from tests.attacks.runner import run_cases


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.attacks", description=__doc__)
    parser.add_argument("file", type=Path, help="cases, one JSON object a line")
    parser.add_argument("--class", dest="prefix", default="", help="only cases whose class starts so")
    options = parser.parse_args(arguments)
    score: Counter[str] = Counter()
    for result in run_cases(case for case in load_cases(options.file) if case.kind.startswith(options.prefix)):
        if result.problem:
            sys.stdout.write(f"{_printable(str(result))}\n")
        score["skipped" if result.skipped else "failed" if result.problem else "passed"] += 1
    sys.stdout.write(f"{score['passed']} passed, {score['failed']} failed, {score['skipped']} skipped\n")
    return 1 if score["failed"] else 0


def _printable(text: str) -> str:
    """One line that any terminal can show, also when a case holds lone surrogates or controls."""
    return text.encode("unicode_escape").decode("ascii")


if __name__ == "__main__":
    sys.exit(main())

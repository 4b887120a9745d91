"""Measures what a statement adds to the start of a process: the figures in these pages come from here."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

RUNS = 21


def start_ms(statement: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True)
    return (time.perf_counter() - began) * 1000


def main(statements: list[str]) -> None:
    """Takes turns, so that a busy moment of the machine hits every statement alike."""
    cases = ["pass", *statements]
    rounds = [[start_ms(case) for case in cases] for _ in range(RUNS)]
    medians = [statistics.median(times) for times in zip(*rounds, strict=True)]
    for case, median in zip(cases, medians, strict=True):
        print(f"{median:7.1f} ms, {median - medians[0]:+7.1f} over `pass`: {case}")


if __name__ == "__main__":
    main(sys.argv[1:])

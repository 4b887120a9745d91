"""The command `agent-gate`, also `python -m agent_gate`."""

from __future__ import annotations

import sys

from agent_gate import __version__

INTERRUPTED = 130
"""As shells have it, and as `Exit` does, which is not loaded yet."""


def main() -> int:
    """Run the command that the program was started with, and return its exit code."""
    args = sys.argv[1:]
    if args == ["--version"]:
        # Answered here because a library for commands takes longer to import than this takes in all.
        return _print_version()
    try:
        from agent_gate.doors.cli.program import run

        return run(args)
    except KeyboardInterrupt:
        # Before the program is loaded, or after it has ended; in between it answers for itself.
        return INTERRUPTED


def _print_version() -> int:
    try:
        print(f"agent-gate {__version__}", flush=True)
    except OSError:
        from agent_gate.doors.cli.program import nobody_reads

        return nobody_reads()
    return 0


if __name__ == "__main__":
    sys.exit(main())

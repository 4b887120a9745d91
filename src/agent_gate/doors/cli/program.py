"""The command line as a whole: finds the command, runs it, and returns its exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from agent_gate.doors.cli import faults
from agent_gate.doors.cli.fast_path import run_fast
from agent_gate.doors.codes import Exit

NAME = "agent-gate"


def run(args: Sequence[str]) -> int:
    """Run one command line; nothing but an exit code comes back, whatever happens."""
    _never_fail_on_characters()
    as_json = _asks_for_json(args)
    try:
        code = _invoke(args)
        _flush()
    except BrokenPipeError:
        return nobody_reads()
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except Exception as error:
        if faults.wants_traceback():
            raise
        return _tell(faults.fault_of(error), as_json)
    return code


def _invoke(args: Sequence[str]) -> int:
    code = run_fast(args)
    return _invoke_by_typer(args) if code is None else code


def _invoke_by_typer(args: Sequence[str]) -> int:
    # For speed: see `fast_path`.
    from typer import Abort, TyperException  # noqa: PLC0415

    from agent_gate.doors.cli.tree import root  # noqa: PLC0415

    try:
        result = root().main(list(args), prog_name=NAME, standalone_mode=False)
    except TyperException as error:
        return faults.tell(_usage(error), as_json=_asks_for_json(args))
    except Abort:
        return Exit.INTERRUPTED
    return result if isinstance(result, int) else Exit.SUCCESS


def _usage(error: object) -> faults.Fault:
    context = getattr(error, "ctx", None)
    path = context.command_path if context else NAME
    message = str(error.format_message()).rstrip(".")  # type: ignore[attr-defined]
    return faults.usage_fault(message[:1].lower() + message[1:], path)


def _tell(fault: faults.Fault, as_json: bool) -> int:
    try:
        code = faults.tell(fault, as_json=as_json)
        _flush()
    except OSError:
        return nobody_reads(fault.exit)
    return code


def _asks_for_json(args: Sequence[str]) -> bool:
    options = args[: args.index("--")] if "--" in args else args
    return "--json" in options


def _never_fail_on_characters() -> None:
    """A screen that cannot show a character gets its number."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _flush() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()


def nobody_reads(code: Exit = Exit.ERROR) -> int:
    """Whoever read our output has gone, or it cannot be written: be quiet, also while Python shuts down."""
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            os.dup2(null, stream.fileno())
    return code

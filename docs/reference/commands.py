"""Prints commands.md: what each command's `--help` says, on one page."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from agent_gate.doors.cli.tree import root

HEAD = """# Commands

Generated from `--help` by `docs/reference/commands.py`; a test keeps it current.

Every command takes `--json` for machines: one JSON document, or one a line. Colour and tables are for people at a
terminal; `NO_COLOR` is honoured. `--db` names the ledger: `agent-gate.db` in the working directory, or `AGENT_GATE_DB`.
A mistake is one line on standard error, `agent-gate: name: detail; what to do`, and with `--json` the object
`{"error": {"code", "name", "detail", "suggestion"}}` on standard output. `AGENT_GATE_DEBUG=1` shows tracebacks.

| exit code | |
|---|---|
| 0 | success |
| 1 | denied |
| 2 | the command line is not one |
| 3 | error |
| 4 | an approval is pending, or expired |
| 5 | cannot connect: there is no such database or server, or it cannot be opened |
| 6 | verification found a mismatch |
| 130 | interrupted |
"""


def page() -> str:
    os.environ["COLUMNS"] = "100"
    os.environ.pop("AGENT_GATE_DB", None)
    sections = [f"## {path}\n\n```text\n{text.rstrip()}\n```\n" for path, text in _helps(root(), "agent-gate")]
    return "\n".join([HEAD, *sections])


def _helps(command: Any, path: str, parent: Any = None) -> Iterator[tuple[str, str]]:
    with command.make_context(path if parent is None else command.name, [], parent, resilient_parsing=True) as context:
        yield path, command.get_help(context)
        for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
            yield from _helps(command.get_command(context, name), f"{path} {name}", context)


if __name__ == "__main__":
    print(page(), end="")

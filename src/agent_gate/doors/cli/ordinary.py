"""Reads the ordinary command line of `check` by itself, because importing Typer takes longer than all the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agent_gate.model.tool import Mode

VALUES: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "--tool": ("tool", str),
    "--args": ("args", str),
    "--calls": ("calls", Path),
    "-p": ("policy", Path),
    "--policy": ("policy", Path),
    "--working-dir": ("working_dir", Path),
    "--role": ("roles", str),
    "--mode": ("mode", Mode),
    "--agent": ("agent", str),
    "--project": ("project", str),
}
FLAGS: Mapping[str, str] = {
    "--resolve": "resolve",
    "--confirmed": "confirmed",
    "--explain": "explain",
    "--json": "as_json",
}


def read_check(words: Sequence[str]) -> dict[str, Any] | None:
    """The options as `run_check` takes them; None for whatever is not plain: help, mistakes, other ways to write it."""
    found: dict[str, Any] = {}
    waiting = iter(words)
    for word in waiting:
        if word in FLAGS:
            found[FLAGS[word]] = True
            continue
        name, kind = VALUES.get(word, ("", str))
        value = next(waiting, "")
        if not name or not value or "\0" in value or (value.startswith("-") and value != "-"):
            return None
        if name == "roles":
            found["roles"] = (*found.get("roles", ()), value)
        elif name in found:
            return None
        else:
            try:
                found[name] = kind(value)
            except ValueError:
                return None
    return found

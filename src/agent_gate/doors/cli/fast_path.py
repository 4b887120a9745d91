"""Reads plain command lines of `check`, `run` and `list-runs` without Typer, for speed.

Importing Typer takes 100 ms, as long as all of `check` and more than all of `list-runs`, which scripts and hooks start
again and again (decision 0031). Whatever is not plain is left to Typer, which has the last word on what is right, and
words every refusal.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from agent_gate.model.ledger_names import LEDGER_VARIABLE
from agent_gate.model.tool import Mode

Kind: TypeAlias = Callable[[str], Any]
"""Raises ValueError for what is not plain."""
Work: TypeAlias = Callable[..., int]

_ODD = re.compile("[\0\ud800-\udfff]")
"""Bytes that are no UTF-8 come as surrogates."""


class Form(NamedTuple):
    """Options that a plain command line may hold, and the function that does the work."""

    module: str
    function: str
    values: Mapping[str, tuple[str, Kind]]
    flags: Mapping[str, str]
    argument: str = ""
    """The name of the one path that has to be there and has no option before it."""
    repeated: str = ""
    """The name of the option that may be given several times."""

    def work(self) -> Work:
        """Import what does the work."""
        work: Work = getattr(import_module(f"{__package__}.{self.module}"), self.function)
        return work


def _count(word: str) -> int:
    if not re.fullmatch("[1-9][0-9]{0,8}", word):
        raise ValueError(word)
    return int(word)


def _path(word: str) -> Path:
    if os.path.exists(word) and not os.access(word, os.R_OK):
        raise ValueError(word)
    return Path(word)


_CHECK = Form(
    "check",
    "run_check",
    {
        "--tool": ("tool", str),
        "--args": ("args", str),
        "--calls": ("calls", _path),
        "-p": ("policy", _path),
        "--policy": ("policy", _path),
        "--working-dir": ("working_dir", _path),
        "--role": ("roles", str),
        "--mode": ("mode", Mode),
        "--agent": ("agent", str),
        "--project": ("project", str),
    },
    {"--resolve": "resolve", "--confirmed": "confirmed", "--explain": "explain", "--json": "as_json"},
    repeated="roles",
)
_LIST_RUNS = Form("list_runs", "print_runs", {"--limit": ("limit", _count), "--db": ("db", str)}, {"--json": "as_json"})
_RUN = Form(
    "run",
    "run_file",
    {
        "-p": ("policy", _path),
        "--policy": ("policy", _path),
        "-c": ("config", _path),
        "--config": ("config", _path),
        "--project": ("project", str),
        "--mode": ("mode", Mode),
        "--working-dir": ("working_dir", _path),
        "--db": ("db", str),
    },
    {"--simulate": "simulate", "--with-reads": "with_reads", "--no-fail-fast": "no_fail_fast", "--json": "as_json"},
    argument="plan",
)
FORMS: Mapping[str, Form] = {"check": _CHECK, "list-runs": _LIST_RUNS, "run": _RUN}


def run_fast(args: Sequence[str]) -> int | None:
    """Run a plain command line; None, and nothing is done, for help, mistakes, other commands and ways to write it."""
    form = FORMS.get(args[0]) if args else None
    options = read(form, args[1:]) if form else None
    return form.work()(**options) if form and options is not None else None


def read(form: Form, words: Sequence[str]) -> dict[str, Any] | None:
    """The options as the work takes them, or None."""
    found: dict[str, Any] = {}
    waiting = iter(words)
    for word in waiting:
        if word in form.flags:
            found[form.flags[word]] = True
            continue
        name, kind, value = _named(form, word, waiting)
        if not name or not _is_plain(value) or (name in found and name != form.repeated):
            return None
        try:
            found[name] = (*found.get(name, ()), value) if name == form.repeated else kind(value)
        except ValueError:
            return None
    if form.argument and form.argument not in found:
        return None
    if "--db" in form.values and (db := os.environ.get(LEDGER_VARIABLE)):
        found.setdefault("db", db)
    return found


def _named(form: Form, word: str, waiting: Iterator[str]) -> tuple[str, Kind, str]:
    if word in form.values:
        return (*form.values[word], next(waiting, ""))
    return form.argument, _path, word


def _is_plain(value: str) -> bool:
    return value == "-" or (value != "" and not value.startswith("-") and not _ODD.search(value))

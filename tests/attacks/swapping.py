"""A set-up that does not hold still: two names that trade places as fast as they can."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


def exchange(one: str, other: str) -> bool:
    """Swap two names in one step; whether that went well."""
    call = ctypes.CDLL(None, use_errno=True).renameat2
    return int(call(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE)) == 0


@contextmanager
def swapped(step: Mapping[str, Any]) -> Iterator[None]:
    """While the block runs: `race_swap` names two paths, or one and the target of a link that takes turns with it."""
    one, other = _pair(step)
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            exchange(one, other)

    thread = threading.Thread(target=swap, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _pair(step: Mapping[str, Any]) -> tuple[str, str]:
    named = step["race_swap"]
    if isinstance(named, Mapping):
        named = [value for value in named.values() if isinstance(value, str)]
    paths = [named] if isinstance(named, str) else list(named)
    paths += [value for key, value in step.items() if key != "race_swap" and isinstance(value, str)]
    if len(paths) > 1 and os.path.lexists(paths[0]) and os.path.lexists(paths[1]) and "target" not in step:
        return paths[0], paths[1]
    other = f"{paths[0]}.swap"
    Path(other).symlink_to(paths[-1])
    if not os.path.lexists(paths[0]):
        Path(paths[0]).write_text("inert-sample\n")
    return paths[0], other

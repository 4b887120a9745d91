"""Follows the symbolic links of a path, asking whoever knows what each of them says."""

from __future__ import annotations

from collections.abc import Callable

_LINKS_MAX = 40
"""As many as the kernel follows."""


def followed(path: str, target_of: Callable[[str], str]) -> str:
    """The absolute path without links, `.` and `..`, which need not exist; `target_of` is empty for what is no link."""
    waiting, reached, links = path.split("/")[::-1], "", 0
    while waiting:
        name = waiting.pop()
        if name == "..":
            reached = reached.rpartition("/")[0]
        elif name not in ("", "."):
            target = target_of(f"{reached}/{name}") if links < _LINKS_MAX else ""
            if target:
                links += 1
                waiting += target.split("/")[::-1]
                reached = "" if target.startswith("/") else reached
            else:
                reached = f"{reached}/{name}"
    return reached or "/"

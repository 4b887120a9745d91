"""Rules about files by relative paths: `fs.read(./notes/*)` and `fs.write(~/out/*)`, resolved like paths."""

from __future__ import annotations

import re
from typing import NamedTuple

from agent_gate.policy.encoding import encoded_text
from agent_gate.policy.guards.path_patterns import normal
from agent_gate.policy.guards.surroundings import Surroundings
from agent_gate.policy.patterns import is_glob

_RELATIVE = re.compile(r"(fs\.[^(]*\()([.~])/(.*?)(\)?)", re.DOTALL)


class RelativePath(NamedTuple):
    """Of a rule's pattern, taken apart."""

    tool: str
    """With its bracket."""
    base: str
    """The directory that it is relative to."""
    fixed: str
    """The names before the first wildcard, from the root; not yet free of `..` and links."""
    wild: str
    """The rest, with the slash before it."""
    end: str


def relative_path(pattern: str, working_dir: str, home: str) -> RelativePath | None:
    """None for a pattern that is not about files below one of these directories."""
    found = _RELATIVE.fullmatch(pattern)
    if found is None:
        return None
    tool, beginning, path, end = found.groups()
    if beginning == "~" and not home:
        return None
    base = (working_dir if beginning == "." else home).rstrip("/")
    names = path.split("/")
    wild_from = next((at for at, name in enumerate(names) if is_glob(name)), len(names))
    fixed = "".join(f"/{name}" for name in names[:wild_from])
    return RelativePath(tool, base, base + fixed, "".join(f"/{name}" for name in names[wild_from:]), end)


def resolved(pattern: str, around: Surroundings) -> str:
    """The pattern that matches the signatures of calls on real paths, where this one is written relatively."""
    found = relative_path(pattern, around.working_dir, around.home)
    if found is None:
        return pattern
    if found.fixed in around.links:
        fixed = encoded_text("path", around.links[found.fixed])
    else:
        # What the rule says itself is written as signatures are; the directory is not.
        fixed = encoded_text("path", found.base) + found.fixed[len(found.base) :]
    return f"{found.tool}{normal(fixed)}{found.wild}{found.end}"

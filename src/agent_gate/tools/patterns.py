"""Mistakes in the patterns of rules, as far as the signatures of the built-in tools tell them."""

from __future__ import annotations

import re

from agent_gate.model.tool import PatternMistake

_WILD = re.compile(r"[*?\[]")
_SCHEME = re.compile(r"[a-z]+://")


def wrong_beginning(name: str, rest: str, beginnings: tuple[str, ...], why: str, before: str) -> PatternMistake | None:
    """For a tool whose first argument can only begin so; `before` is what to put before another."""
    if not rest:
        return None
    wild = _WILD.search(rest)
    plain = rest[: wild.start()] if wild else rest
    if any(plain.startswith(each) or (wild and each.startswith(plain)) for each in beginnings):
        return None
    return PatternMistake(why, f"{name}({before}{_SCHEME.sub('', rest, count=1)}")

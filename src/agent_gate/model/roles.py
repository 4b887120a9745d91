"""The roles that are always there, lowest first; what each may do is `DEFAULT_ROLES` of `model/policy.py`."""

from __future__ import annotations

LADDER = ("viewer", "operator", "admin")


def roles_that_include(name: str) -> tuple[str, ...]:
    """The role itself, and of the three that are always there those above it: an admin is an operator too."""
    return LADDER[LADDER.index(name) :] if name in LADDER else (name,)

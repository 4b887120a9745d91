"""Where a gate stands: what a guard must know beside the policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What relative patterns are relative to, and the gate's own files."""

    working_dir: str = "/"
    protected: tuple[str, ...] = ()
    """Real paths, files or whole directories, that no tool may write."""
    secret: tuple[str, ...] = ()
    """Those of them that no tool may read either."""
    links: Mapping[str, str] = field(default_factory=dict)
    """The fixed parts of path patterns that lead through links, and where they really lead."""

"""Surroundings of a gate: what a guard must know beside the policy."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import asdict, dataclass, field

from agent_gate.model.tool import Json


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The directory that relative patterns are relative to, and the gate's own files."""

    working_dir: str = "/"
    protected: tuple[str, ...] = ()
    """Real paths, files or whole directories, that no tool may write."""
    secret: tuple[str, ...] = ()
    """Those of them that no tool may read either."""
    links: Mapping[str, str] = field(default_factory=dict)
    """The fixed parts of path patterns that lead through links, and where they really lead."""
    home: str = ""
    """The directory that `~/` stands for in rules."""

    def to_json(self) -> dict[str, Json]:
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Json]) -> Surroundings:
        return cls(
            fields["working_dir"],
            tuple(fields["protected"]),
            tuple(fields["secret"]),
            dict(fields["links"]),
            fields.get("home", ""),
        )


def covering(paths: Container[str], path: str) -> str:
    """Find which of these is the path or a directory that it lies in; as fast for many of them as for one."""
    while path and path not in paths:
        path = path[: path.rfind("/")]
    return path

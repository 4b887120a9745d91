"""A change to a file that was made ready and waits to be judged: what rules, guards and people see of it."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from agent_gate.model.tool import Json


class FileChange(Struct, frozen=True):
    """One path that a command would change; a rename is two, one removed and one added."""

    path: str
    change: str
    """`added`, `changed`, `removed` or `mode`, which stands for permissions and times too."""
    bytes: int
    """Of what would be there; of what is removed, what is there now."""
    found: Mapping[str, Json]
    """Facts that the path guard wants to know: `type`, `size`, and of what is there now `nlink` and `same_as`."""
    leads_to: str = ""
    """Of a symbolic link: where it would really lead."""
    obstacle: str = ""
    """The reason why no policy can let it pass: a set-uid bit, a device, several links."""

    def to_json(self) -> dict[str, Json]:
        return {"path": self.path, "change": self.change, "bytes": self.bytes}

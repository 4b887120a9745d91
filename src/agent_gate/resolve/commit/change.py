"""A change to one path: what stands there, what is to stand there, and where its content is."""

from __future__ import annotations

from dataclasses import dataclass

from agent_gate.model.change import FileChange
from agent_gate.model.codec import canonical, sha256_hex
from agent_gate.resolve.commit.node import Identity, Node, content_of


@dataclass(frozen=True, slots=True)
class Change:
    path: str
    before: Node | None
    after: Node | None
    identity: Identity | None = None
    """Of what stands there now."""
    links: int = 1
    """Number of names that the thing there has."""
    same_as: str | None = None
    """The gate's own file that what stands there is another name of."""
    own: str = ""
    """`secret` or `protected` where the path is one of the gate's own by now."""
    source: str | bytes = b""
    """A file with the new content, or the content."""
    obstacle: str = ""
    moved_in: bool = False
    """True where it was on the disk before: the command renamed it, or somebody else has removed it since."""
    stands_at: str = ""
    """The real place of what stands there now, if not the path itself: an earlier step of a simulation made it."""

    @property
    def word(self) -> str:
        if self.before is None:
            return "added"
        if self.after is None:
            return "removed"
        same = self.before.kind == self.after.kind and self.before.sha256 == self.after.sha256
        return "mode" if same and self.before.target == self.after.target else "changed"

    @property
    def size(self) -> int:
        node = self.after or self.before
        return node.size if node else 0

    def content(self) -> bytes:
        """Of the file that is to stand there."""
        assert self.after is not None
        return self.source if isinstance(self.source, bytes) else content_of(self.source, self.after)

    def to_judge(self, leads_to: str) -> FileChange:
        """`leads_to` is the real path that a link ends at; empty for what is none."""
        found: dict[str, object] = {"type": "file", "size": self.after.size if self.after else 0}
        if self.links > 1 and self.before is not None and self.before.kind == "file":
            found["nlink"] = self.links
        if self.same_as is not None:
            found["same_as"] = self.same_as
        if self.own:
            found["own"] = self.own
        return FileChange(self.path, self.word, self.size, found, leads_to, self.obstacle)


def manifest_hash(changes: list[Change]) -> str:
    """Of all that a person agrees to: each path with what would stand there."""
    told = []
    for change in changes:
        node = change.after
        said = [node.kind, node.mode, node.size, node.sha256, node.target] if node else []
        told.append([change.path, change.word, said])
    return sha256_hex(canonical(told))

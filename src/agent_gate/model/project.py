"""Projects as they stand in the ledger: status, end of the chain and state."""

from __future__ import annotations

from msgspec import Struct

from agent_gate.model.tool import Json

INITIAL_SNAPSHOT = "initial"
"""Names the state that a project was made with, in every project; the others have ids of their own."""


class StateRef(Struct, frozen=True):
    """One state of a project; the number alone would not tell it from another that was to have the same one."""

    version: int
    snapshot_id: str | None = None
    """None for the initial state."""


class ProjectState(Struct, frozen=True):
    version: int
    document: Json
    """Nobody changes it: others look at the same one."""
    snapshot_id: str | None = None
    encoded: bytes | None = None
    """The document's canonical bytes, where they are at hand."""

    @property
    def ref(self) -> StateRef:
        return StateRef(self.version, self.snapshot_id)


class ProjectHead(Struct, frozen=True):
    """A project as it stands: its status, the end of its chain and the version of its state."""

    project: str
    seq: int
    hash: bytes
    state_version: int
    snapshot_id: str | None
    status: str

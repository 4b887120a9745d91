"""That a call was undone: once, and by which call."""

from __future__ import annotations

from dataclasses import dataclass

from agent_gate.model.errors import Problem


@dataclass(frozen=True, slots=True)
class Undone:
    """A call, and the one that undid it, is at it, or ended so that nobody knows whether it did."""

    call_id: str
    by: str
    status: str | None
    """The end of `by`: `success` or `unknown`; None while it is under way."""

    @property
    def problem(self) -> Problem:
        """Say why the call is not undone again."""
        if self.status == "success":
            detail = f"call `{self.call_id}` was undone already, by call `{self.by}`"
            return Problem(2002, detail, f"to take that back, revert `{self.by}`", "bind")
        if self.status is None:
            return Problem(2002, f"call `{self.call_id}` is being undone, by call `{self.by}`", "wait for it", "bind")
        detail = f"call `{self.by}` was to undo call `{self.call_id}`, and nobody knows how that ended"
        return Problem(2002, detail, "look at what it should have brought back", "bind")

"""A channel: the places where a messenger shows questions, as its board sees them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from agent_gate.doors.messengers.status import Ended, Open

SHOW_ANEW = ""
"""The state of a message of which nobody knows what people see: it is to be shown as if for the first time."""


@dataclass(frozen=True, slots=True)
class Message:
    """A question as one place shows it."""

    reference: str = ""
    """By which the messenger finds it again; empty where it needs none, or does not know whether it arrived."""
    state: str = SHOW_ANEW
    """Its text, as far as that can change."""
    about: str = ""
    """The text of the call, for the time after its end; kept in memory only, after a restart one line stands for it."""


class PlaceRefused(Exception):
    """One place does not take messages; the others need not wait for it. One line, without any secret."""


class Channel(Protocol):
    """Shows questions in one or more places. Raises Undelivered where that is to be tried again, or PlaceRefused."""

    @property
    def name(self) -> str:
        """Of the ledger's rows about its messages, and a part of every seal."""
        ...

    @property
    def questions_max(self) -> int:
        """Open ones at a time; the rest follow as these end, and are at every other door meanwhile."""
        ...

    @property
    def closes_by_reference(self) -> bool:
        """Say whether a message can be closed only by what the other side called it, once it had arrived."""
        ...

    @property
    def places(self) -> Sequence[str]: ...

    def concerns(self, place: str, now: Open) -> bool:
        """Say whether this question is one for the people at this place."""
        ...

    async def show(self, place: str, now: Open, before: Message | None) -> Message:
        """Show it, or what has changed about it, in place of the message before; the board sets the state."""
        ...

    async def close(self, place: str, call_id: str, now: Ended, before: Message) -> Message | None:
        """Show that it can no longer be answered there; None where nothing more will be said of it at this place."""
        ...

"""The adapter: all that one kind of messenger brings; the rest is the same for every one."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Protocol

from agent_gate.doors.context import ServerContext
from agent_gate.doors.messengers.backoff import Pause
from agent_gate.doors.messengers.board import Board
from agent_gate.doors.messengers.channel import Channel


@dataclass(frozen=True, slots=True)
class Attached:
    """A messenger at work: what an adapter works with."""

    context: ServerContext
    board: Board
    refresh: Callable[[str], None]
    """Have what is shown of a call brought up to date soon."""
    pause: Pause


class Adapter(Channel, Protocol):
    """A channel with a life: it listens for answers, where they do not come by a door of the gate's own."""

    @property
    def trouble(self) -> str:
        """Say what is wrong, in one line, without any secret; empty where nothing is."""
        ...

    def attach(self, attached: Attached) -> None: ...

    async def start(self) -> None:
        """Come before the first look; that the other side cannot be reached is no reason to fail."""
        ...

    def listening(self) -> Sequence[Coroutine[None, None, None]]:
        """Tasks that run until the messenger closes."""
        ...

    def before_look(self) -> None:
        """Come before each look at what is shown."""
        ...

    async def close_down(self) -> None:
        """Take nothing more in."""
        ...

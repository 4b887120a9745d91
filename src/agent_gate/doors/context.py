"""Everything that the doors of one server share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from agent_gate.chain.configured import ConfiguredChain
from agent_gate.config import Config
from agent_gate.doors.bounds import DoorBounds
from agent_gate.doors.identity import Identities
from agent_gate.doors.throttle import Throttle
from agent_gate.gate.approvals import Approvals
from agent_gate.gate.gate import Gate
from agent_gate.gate.mailbox import Mailbox
from agent_gate.history.readings import Readings
from agent_gate.model.bounds import READERS_MAX


@dataclass(slots=True)
class ServerContext:
    """The gate, what people and agents do at it, and who may do so."""

    gate: Gate
    approvals: Approvals
    mailbox: Mailbox
    identities: Identities
    config: Config
    checks: dict[str, Callable[[], Awaitable[bool | str]]] = field(default_factory=dict)
    """Checks that must pass for the server to be ready, by name, besides its ledger and the services of the gate.

    Each says whether it is, or in one line what is wrong.
    """
    bounds: DoorBounds = field(default_factory=DoorBounds)
    api_chain: ConfiguredChain | None = None
    """The chain for the headers of each request to `/api`; None where the tokens of the configuration decide."""
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the server is to end: doors take nothing more in, tell who is connected, and let go."""
    throttle: Throttle = field(init=False)
    """Of whoever guesses tokens, at whichever door."""

    readings: Readings = field(init=False)
    """Every door looks back by these."""

    def __post_init__(self) -> None:
        self.throttle = Throttle(self.gate.clock.monotonic)
        self.readings = Readings(self.gate.ledger.storage, READERS_MAX)

    def close(self) -> None:
        self.readings.close()

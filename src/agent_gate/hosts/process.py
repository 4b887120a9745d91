"""One way to start and to end a process: its log without secrets, its event loop, its signals."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import uvloop

from agent_gate.config import Config
from agent_gate.doors.observe import configure_logs, secrets_of
from agent_gate.hosts.signals import Signals
from agent_gate.model.tool import Json

Tell: TypeAlias = Callable[[str, str, Mapping[str, Json]], None]
"""Says what happens to whoever started the process: a word for it, a line for people, and the same for machines."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process at work, as its work is given it."""

    tell: Tell
    hide: Callable[[str], None]
    """Keeps a secret that is found on the way out of the log."""
    signals: Signals

    @property
    def ended(self) -> asyncio.Event:
        """Set by the first signal that asks for the end."""
        return self.signals.ended


def run(
    work: Callable[[Process], Coroutine[Any, Any, None]],
    config: Config | None,
    log_level: str,
    tell: Tell | None = None,
    ending: str = "what runs is settled",
) -> None:
    """Run the work until it returns; a signal asks it to, and `ending` is then told of what it does before."""
    redactor = configure_logs(log_level, secrets_of(config) if config else ())
    told = tell or _nobody_listens

    async def main() -> None:
        def on_end() -> None:
            told("ending", f"ending: {ending}, nothing more is taken in; once more ends at once", {})

        with Signals(on_end) as signals:
            await work(Process(told, redactor.hide, signals))

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


def _nobody_listens(event: str, text: str, fields: Mapping[str, Json]) -> None:
    """Standard output may be somebody else's, and silence is all that is left."""

"""Signals of a process: what each of them does, and that nothing of it stays afterwards."""

from __future__ import annotations

import asyncio
import os
import signal

from agent_gate.hosts.signals import Signals
from tests.gates import soon

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


async def test_the_first_signal_asks_for_the_end_and_says_so() -> None:
    told: list[str] = []
    with Signals(lambda: told.append("ending")) as signals:
        os.kill(os.getpid(), signal.SIGTERM)
        await soon(signals.ended.wait())
    assert told == ["ending"]


async def test_each_sighup_reloads_and_does_not_end() -> None:
    reloads: asyncio.Queue[None] = asyncio.Queue()
    with Signals(lambda: None) as signals:
        signals.reload_by(lambda: reloads.put(None))
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGHUP)
            await soon(reloads.get())
        assert not signals.ended.is_set()


async def test_afterwards_signals_do_what_they_did_before() -> None:
    before = [signal.getsignal(number) for number in NUMBERS]
    with Signals(lambda: None) as signals:
        assert signal.getsignal(signal.SIGHUP) == before[2], "nothing is reloaded yet"
        signals.reload_by(lambda: asyncio.sleep(0))
        assert all(signal.getsignal(number) != was for number, was in zip(NUMBERS, before, strict=True))
    assert [signal.getsignal(number) for number in NUMBERS] == before

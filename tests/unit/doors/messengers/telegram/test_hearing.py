"""Listening: in order, once, and on, whatever happens."""

from __future__ import annotations

import asyncio

from agent_gate.doors.messengers.telegram.faults import Flooded, Taken, TelegramFault
from agent_gate.doors.messengers.telegram.hearing import Hearing
from agent_gate.doors.messengers.telegram.updates import Command, Press, Update
from tests.chats import Pauses
from tests.gates import until


class Source:
    """Gives one batch after the other, or fails; then nothing comes any more."""

    def __init__(self, *batches: list[Update] | TelegramFault) -> None:
        self.batches, self.offsets, self.waits_s = list(batches), list[int | None](), list[int]()

    async def introduce(self) -> None:
        pass

    async def updates(self, offset: int | None, wait_s: int) -> list[Update]:
        self.offsets.append(offset)
        self.waits_s.append(wait_s)
        if not self.batches:
            await asyncio.Event().wait()
        batch = self.batches.pop(0)
        if isinstance(batch, TelegramFault):
            raise batch
        return batch


def press(callback_id: str) -> Press:
    return Press(callback_id, 1, 1, 1, "")


async def heard_from(source: Source, pauses: Pauses, *, clumsy: bool = False) -> tuple[list[str], Hearing]:
    heard: list[str] = []

    async def handle(what: Press | Command) -> None:
        assert isinstance(what, Press)
        heard.append(what.callback_id)
        if clumsy:
            raise ValueError("a bug")

    hearing = Hearing(source, handle, pauses)
    task = asyncio.create_task(hearing.run())
    await until(lambda: not source.batches)
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return heard, hearing


async def test_each_update_is_handed_on_once_and_then_confirmed() -> None:
    source = Source(
        [(5, press("a")), (6, None), (5, press("a")), (7, press("b"))], [(7, press("b")), (8, press("c"))], []
    )
    heard, hearing = await heard_from(source, Pauses())
    assert heard == ["a", "b", "c"]
    assert source.offsets[:3] == [None, 8, 9]
    assert hearing.trouble == ""


async def test_trouble_is_told_waited_out_and_over() -> None:
    pauses = Pauses()
    source = Source(Taken("somebody else"), Flooded(11), [(1, press("a"))], [])
    heard, hearing = await heard_from(source, pauses)
    assert heard == ["a"]
    assert pauses.taken_s[1] == 11
    assert hearing.trouble == ""
    assert source.waits_s[:5] == [0, 0, 0, 25, 25]


async def test_what_cannot_be_handled_does_not_stop_the_rest() -> None:
    heard, _ = await heard_from(Source([(1, press("a")), (2, press("b"))], []), Pauses(), clumsy=True)
    assert heard == ["a", "b"]

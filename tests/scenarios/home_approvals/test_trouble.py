"""A home that is away, deaf to us, or does not know a phone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agent_gate.config import HomeApproverConfig
from agent_gate.model.errors import StorageError
from agent_gate.model.work import Work
from agent_gate.simulated_home import Running
from agent_gate.simulated_home.faults import Unsupported
from agent_gate.simulated_home.services import Call
from tests.chats import QUICK
from tests.gates import HandClock, sender, soon, until
from tests.phones import GUEST, PIXEL, AtHome, at_home, home_config


async def test_a_question_that_is_asked_while_the_home_is_away_is_shown_when_it_is_back(
    people: AtHome, acts: list[str]
) -> None:
    people.home.restart(hold=True)
    await until(lambda: not people.approvals.healthy())
    outcome = await soon(people.call({"text": "hi"}, wait=False))
    await until(lambda: "home assistant" in people.approvals.trouble)
    assert people.shown() == []
    people.home.finish_start()
    shown = await people.notification(outcome.call_id)
    await until(people.approvals.healthy)
    people.press(shown, "Allow")
    await until(lambda: acts == ["hi"])


async def test_nothing_is_sent_where_the_answer_could_not_be_heard(tmp_path: Path, running: Running) -> None:
    config = home_config(running, token=running.limited_token)
    async with at_home(tmp_path, running, sender([]), config=config) as people:
        await people.call({"text": "hi"}, wait=False)
        await until(lambda: people.pauses.taken_s)
        assert people.approvals.trouble == (
            "home assistant does not let the gate hear what is pressed on phones; give it the token of an administrator"
        )
        assert not people.approvals.healthy()
        assert people.shown() == []


async def test_a_phone_that_the_home_does_not_know_is_told_of_before_anything_is_asked(
    tmp_path: Path, running: Running
) -> None:
    phones = HomeApproverConfig("anna", "notify.mobile_app_lost"), HomeApproverConfig("bob", f"notify.{GUEST}")
    async with at_home(tmp_path, running, sender([]), config=home_config(running, *phones)) as people:
        assert people.approvals.trouble == (
            "home assistant has no notify.mobile_app_lost; look for the name of the phone among its actions"
        )
        assert not people.approvals.healthy()


async def test_a_phone_that_refuses_keeps_no_other_waiting_and_is_tried_again_after_a_while(
    tmp_path: Path, running: Running, clock: HandClock, acts: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    bounds = replace(QUICK, place_again_s=0.5)
    async with at_home(tmp_path, running, sender(acts), clock=clock, bounds=bounds) as people:
        pixel = people.home.services["notify", PIXEL]
        people.home.register(replace(pixel, work=_unconnected))
        one, shown = await people.ask("one", phone=GUEST)
        two, _ = await people.ask("two", phone=GUEST)
        assert people.approvals.trouble == f"home assistant does not write to notify.{PIXEL}: device not connected"
        people.press(shown, "Allow")
        await until(lambda: acts == ["one"])
        people.home.register(pixel)
        await people.notification(two)
        await until(people.approvals.healthy)
        assert people.about(one) == []
        assert caplog.text.count("device not connected") == 1


async def _unconnected(_: Call) -> None:
    raise Unsupported("device not connected")


async def test_more_presses_than_can_be_looked_at_are_turned_away(people: AtHome) -> None:
    call_id, _ = await people.ask()
    for number in range(500):
        people.adapter._hear({"data": {"action": f"AG_ALLOW_{call_id}_{number:032x}"}})
    await people.turned_away(500)
    assert await people.is_open(call_id)


async def test_a_press_that_could_not_be_looked_at_is_asked_for_again(
    people: AtHome, acts: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    call_id, shown = await people.ask()
    with monkeypatch.context() as broken:
        broken.setattr(people.gate.ledger, "question", _failing)
        people.press(shown, "Allow")
        await until(lambda: "what was pressed on a phone could not be handled: OSError" in caplog.text)
        people.home.notifications.clear()
    people.press(await people.notification(call_id), "Allow")
    await until(lambda: acts == ["hi"])


async def test_a_press_that_could_not_be_recorded_is_asked_for_again(
    people: AtHome, acts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    call_id, shown = await people.ask()
    with monkeypatch.context() as broken:
        broken.setattr(people.gate.ledger, "commit", _full)
        people.press(shown, "Allow")
        await until(
            lambda: any(one.message == "Your answer does not count: the disk is full" for one in people.shown())
        )
        people.home.notifications.clear()
    people.press(await people.notification(call_id), "Allow")
    await until(lambda: acts == ["hi"])


async def _failing(call_id: str) -> None:
    raise OSError(f"nothing of {call_id} can be read")


async def _full(work: Work) -> None:
    raise StorageError("the disk is full")

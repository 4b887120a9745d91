"""Phones and the ledger stay in step: over restarts, lost connections, and more questions than there is room for."""

from __future__ import annotations

from pathlib import Path

from agent_gate.config import HomeApproverConfig
from agent_gate.simulated_home import Running
from tests.gates import ANNA, HandClock, rows, sender, until
from tests.phones import GUEST, PIXEL, AtHome, at_home, home_config


async def test_a_question_keeps_its_button_over_a_restart_and_is_performed_once(
    tmp_path: Path, running: Running, clock: HandClock, acts: list[str]
) -> None:
    async with at_home(tmp_path, running, sender(acts), clock=clock) as people:
        call_id, shown = await people.ask()
    assert people.about(call_id) == [shown]
    async with at_home(tmp_path, running, sender(acts), clock=clock) as people:
        people.press(shown, "Allow")
        await until(lambda: acts)
        await people.cleared(call_id)
        await until(lambda: not rows(people.gate, "SELECT * FROM question_messages"))
    assert acts == ["hi"]


async def test_what_ended_while_the_gate_was_away_is_taken_off_when_it_is_back(
    tmp_path: Path, running: Running, clock: HandClock
) -> None:
    async with at_home(tmp_path, running, sender([]), clock=clock) as people:
        call_id, _ = await people.ask()
        await people.notification(call_id, GUEST)
    clock.advance(901)
    async with at_home(tmp_path, running, sender([]), clock=clock) as people:
        await people.cleared(call_id)


async def test_what_was_pressed_while_nobody_listened_is_asked_again(
    tmp_path: Path, running: Running, clock: HandClock
) -> None:
    """A phone takes away what was pressed, and the event is gone."""
    async with at_home(tmp_path, running, sender([]), clock=clock) as people:
        call_id, shown = await people.ask()
    people.press(shown, "Allow")
    running.home.notifications.clear()
    async with at_home(tmp_path, running, sender([]), clock=clock) as people:
        again = await people.notification(call_id)
        assert again.actions == shown.actions


async def test_what_is_open_is_shown_again_after_the_connection_was_lost(people: AtHome, acts: list[str]) -> None:
    call_id, shown = await people.ask()
    people.home.notifications.clear()
    people.home.drop_connections()
    again = await people.notification(call_id)
    assert again.tag == shown.tag
    people.press(again, "Allow")
    await until(lambda: acts == ["hi"])


async def test_a_phone_that_is_no_approvers_any_more_is_cleared(
    tmp_path: Path, running: Running, clock: HandClock, acts: list[str]
) -> None:
    async with at_home(tmp_path, running, sender(acts), clock=clock) as people:
        call_id, _ = await people.ask()
        bobs = await people.notification(call_id, GUEST)
    config = home_config(running, HomeApproverConfig("anna", f"notify.{PIXEL}"))
    async with at_home(tmp_path, running, sender(acts), clock=clock, config=config) as people:
        await people.cleared(call_id, GUEST)
        people.press(bobs, "Allow")
        await people.turned_away()
        assert await people.is_open(call_id)


async def test_a_person_may_have_two_phones(tmp_path: Path, running: Running, acts: list[str]) -> None:
    phones = HomeApproverConfig("anna", f"notify.{PIXEL}"), HomeApproverConfig("anna", f"notify.{GUEST}")
    async with at_home(tmp_path, running, sender(acts), config=home_config(running, *phones)) as people:
        call_id, shown = await people.ask(phone=GUEST)
        people.press(shown, "Allow")
        await until(lambda: acts == ["hi"])
        await people.cleared(call_id)


async def test_questions_for_which_there_is_no_room_follow_as_others_end(
    tmp_path: Path, running: Running, clock: HandClock
) -> None:
    async with at_home(tmp_path, running, sender([]), clock=clock, limits={"questions_max": 2}) as people:
        first, _ = await people.ask("1")
        await people.ask("2")
        third = (await people.call({"text": "3"}, wait=False)).call_id
        await until(lambda: people.approvals.board.left_out)
        assert len(people.shown()) == 2
        await people.context.approvals.answer(first, approve=False, by=ANNA)
        await people.notification(third)
        assert len(people.shown()) == 2


async def test_a_phone_is_told_when_it_may_forget_by_itself(people: AtHome) -> None:
    _, shown = await people.ask()
    assert shown.data["timeout"] == shown.data["ttl"] == 900
    assert shown.data["visibility"] == "private"
    assert [button["authenticationRequired"] for button in shown.actions] == [True, False]

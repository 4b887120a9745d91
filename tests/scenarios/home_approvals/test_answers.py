"""Answers from phones: by the one whose phone it is, who is entitled, in time, once."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from agent_gate.config import HomeApproverConfig
from agent_gate.doors.messengers.phones.actions import action_of as spelt
from agent_gate.doors.messengers.phones.phones import Phone
from agent_gate.doors.messengers.seal import Seals, Verb
from agent_gate.doors.shapes import digest
from agent_gate.simulated_home import Running
from tests.gates import ANNA, BOB, HandClock, entries, sender, soon, until
from tests.phones import GUEST, PIXEL, AtHome, action_of, at_home, home_config, titles

TWO = {"rules": [{"pattern": "*", "action": "ask"}], "approvals": [{"min_cost": 0, "approvers_required": 2}]}


async def test_allow_on_a_phone_performs_the_call_once(people: AtHome, acts: list[str]) -> None:
    call_id, shown = await people.ask()
    people.press(shown, "Allow")
    await until(lambda: acts)
    people.press(shown, "Allow")
    await until(lambda: people.refused_answers() == [("approve", "anna", "not_entitled")])
    await people.cleared(call_id)
    assert acts == ["hi"]
    assert [row["body"]["resolved_by"] for row in entries(people.gate, "answered")] == ["anna"]


async def test_deny_on_a_phone_does_nothing(people: AtHome, acts: list[str]) -> None:
    call_id, shown = await people.ask()
    people.press(shown, "Deny")
    outcome = await soon(people.gate.result(call_id))
    assert outcome is not None
    assert outcome.status.value == "denied"
    await people.cleared(call_id)
    assert acts == []


async def test_every_phone_of_an_entitled_person_shows_the_whole_call(people: AtHome) -> None:
    call_id, shown = await people.ask("42 < 43")
    other = await people.notification(call_id, GUEST)
    assert titles(shown) == titles(other) == ["Allow", "Deny"]
    assert shown.title == "Allow mail.send?"
    assert shown.message == (
        "bot of carol asks:\n│ mail.send(42 ⟨U+003C⟩ 43)\n│ text: 42 ⟨U+003C⟩ 43\n"
        "Answer before 2026-03-04 12:15 UTC. Why: rules: *"
    )
    assert {button["action"] for button in shown.actions}.isdisjoint(button["action"] for button in other.actions)
    assert shown.tag != other.tag


async def test_a_forged_seal_is_turned_away_and_counted(people: AtHome, acts: list[str]) -> None:
    call_id, shown = await people.ask()
    real = action_of(shown, "Allow")
    forged = real[:-1] + ("0" if real[-1] != "0" else "1")
    people.home.act_on_notification(forged)
    people.home.act_on_notification(action_of(shown, "Deny").replace("DENY", "ALLOW"))
    people.home.act_on_notification("AG_ALLOW")
    await people.turned_away(3)
    assert await people.is_open(call_id)
    assert acts == []


async def test_a_button_of_another_call_does_not_count_for_this_one(people: AtHome, acts: list[str]) -> None:
    one, shown = await people.ask("one")
    two, _ = await people.ask("two")
    people.home.act_on_notification(action_of(shown, "Allow").replace(one, two))
    await people.turned_away()
    assert await people.is_open(two)
    assert acts == []


async def test_what_other_notifications_answer_is_not_looked_at(people: AtHome) -> None:
    people.home.act_on_notification("OPEN_THE_BLINDS")
    call_id, shown = await people.ask()
    people.press(shown, "Deny")
    await people.cleared(call_id)
    assert entries(people.gate, "door") == []


async def test_a_press_of_another_user_than_the_phones_is_turned_away(
    tmp_path: Path, running: Running, acts: list[str]
) -> None:
    home = running.home
    config = home_config(running, HomeApproverConfig("anna", f"notify.{PIXEL}", home.owner.id))
    async with at_home(tmp_path, running, sender(acts), config=config) as people:
        call_id, shown = await people.ask()
        people.press(shown, "Allow", user_id=home.limited.id)
        await people.turned_away()
        assert await people.is_open(call_id)
        people.press(shown, "Allow", user_id=home.owner.id)
        await until(lambda: acts == ["hi"])


async def test_a_late_answer_does_not_count_and_the_phone_says_so(
    people: AtHome, clock: HandClock, acts: list[str]
) -> None:
    call_id, shown = await people.ask()
    clock.advance(901)
    await people.cleared(call_id)
    people.press(shown, "Allow")
    await until(lambda: people.refused_answers() and people.refused_answers()[0][:2] == ("approve", "anna"))
    await until(lambda: any("Your answer does not count" in one.message for one in people.shown()))
    assert acts == []


async def test_the_owner_of_an_agent_is_not_asked_about_its_calls(tmp_path: Path, running: Running) -> None:
    phones = HomeApproverConfig("carol", f"notify.{PIXEL}"), HomeApproverConfig("bob", f"notify.{GUEST}")
    async with at_home(tmp_path, running, sender([]), config=home_config(running, *phones)) as people:
        await people.ask(phone=GUEST)
        assert people.shown(PIXEL) == []


async def test_only_those_with_the_role_are_asked(tmp_path: Path, running: Running) -> None:
    policy = {"rules": [{"pattern": "*", "action": "ask"}], "approvals": [{"min_cost": 0, "approver_role": "admin"}]}
    async with at_home(tmp_path, running, sender([]), policy=policy) as people:
        await people.ask()
        assert people.shown(GUEST) == []


async def test_two_people_agree_on_two_phones(tmp_path: Path, running: Running, acts: list[str]) -> None:
    async with at_home(tmp_path, running, sender(acts), policy=TWO) as people:
        call_id, annas = await people.ask()
        people.press(annas, "Allow")
        await people.cleared(call_id, PIXEL)
        await until(lambda: "1 of 2 have agreed (anna)." in people.about(call_id, GUEST)[0].message)
        people.press(annas, "Allow")
        await until(people.refused_answers)
        assert acts == []
        people.press(people.about(call_id, GUEST)[0], "Allow")
        await until(lambda: acts == ["hi"])
        await people.cleared(call_id)
    assert acts == ["hi"]


async def test_what_is_answered_elsewhere_is_taken_off_every_phone(people: AtHome, acts: list[str]) -> None:
    call_id, _ = await people.ask()
    await people.notification(call_id, GUEST)
    await people.context.approvals.answer(call_id, approve=True, by=BOB)
    await people.cleared(call_id)
    await until(lambda: acts == ["hi"])


async def test_what_cannot_be_shown_in_full_cannot_be_approved_on_a_phone(people: AtHome, acts: list[str]) -> None:
    call_id, shown = await people.ask("word " * 100)
    assert titles(shown) == ["Deny"]
    assert "can only be denied here. Read and answer it in the console" in shown.message
    found = await people.gate.ledger.question(call_id)
    assert found is not None
    seals = Seals(people.gate.secrets.keyed_hash, "home_assistant")
    sealed = seals.sealed(Verb.ALLOW, call_id, digest(found[0]), Phone(ANNA, PIXEL).holder)
    people.home.act_on_notification(spelt(sealed))
    await people.turned_away()
    assert await people.is_open(call_id)
    people.press(shown, "Deny")
    await people.cleared(call_id)
    assert acts == []


async def test_a_question_that_was_changed_behind_the_gates_back_is_taken_off_and_counts_no_more(
    people: AtHome, acts: list[str]
) -> None:
    call_id, shown = await people.ask("pay 1")
    with closing(sqlite3.connect(people.context.gate.ledger.storage.path)) as connection, connection:
        connection.execute(
            "UPDATE pending_requests SET question = replace(question, 'pay 1', 'pay 9'),"
            " args = replace(args, 'pay 1', 'pay 9') WHERE call_id = ?",
            (call_id,),
        )
    people.press(shown, "Allow")
    await people.turned_away()
    await people.approvals.ask((await people.context.approvals.questions())[0].question)
    await people.cleared(call_id)
    assert acts == []


@pytest.mark.parametrize(
    "text", ["{{ states('lock.front') }}", "{% if true %}", "<b>a</b>", "a&lt;", "a\\nb", "a\nb", "a  b"]
)
async def test_nothing_that_is_read_on_the_way_to_the_phone_stays_active(people: AtHome, text: str) -> None:
    _, shown = await people.ask(text)
    framed = shown.message.split("\n")[1:3]
    assert all(line.startswith("│ ") for line in framed)
    assert not any(sign in shown.message for sign in ("{{", "{%", "<", "&", "\\", "  "))
    assert titles(shown) == ["Allow", "Deny"]

"""Questions on their way to a webhook: signed, kept up to date, and sent until they arrive."""

from __future__ import annotations

import asyncio
import logging
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from agent_gate import tool
from tests.chats import QUICK
from tests.gates import ANNA, ASK_ALL, BOB, HandClock, rows, sender, until
from tests.servers import ANNA_TOKEN
from tests.webhooks import SECRET, Hooked, Receiver, a_hook, moved_to, webhook_config


async def test_a_question_is_posted_signed_with_all_that_is_asked(hooked: Hooked) -> None:
    call_id, asked = await hooked.ask("hello")
    assert asked.is_genuine
    assert asked.headers["content-type"] == "application/json"
    data = asked.data
    assert (data["call_id"], data["tool"], data["args"], data["agent_id"], data["owner"]) == (
        call_id,
        "mail.send",
        {"text": "hello"},
        "bot",
        "carol",
    )
    assert data["complete"]
    assert "│ hello" in data["text"]
    assert set(data["answers"]) == {"allow", "deny", "grant"}
    assert "nonce" not in data


async def test_the_receiver_is_told_how_it_ended_wherever_it_was_answered(hooked: Hooked, acts: list[str]) -> None:
    call_id, _ = await hooked.ask()
    await hooked.context.approvals.answer(call_id, approve=True, by=BOB)
    ended = await hooked.receiver.told("question.ended", call_id)
    assert ended.is_genuine
    assert (ended.data["resolution"], ended.data["by"]) == ("approved", ["bob"])
    await until(lambda: acts == ["hi"])
    await until(lambda: rows(hooked.gate, "SELECT * FROM question_messages") == [])
    assert hooked.receiver.kinds() == ["question.asked", "question.ended"]


async def test_a_question_that_expires_is_told_once_and_only_when_it_is_recorded(hooked: Hooked) -> None:
    call_id, _ = await hooked.ask()
    hooked.clock.advance(901)
    ended = await hooked.receiver.told("question.ended", call_id)
    assert (ended.data["resolution"], ended.data["by"]) == ("expired", [])
    await until(lambda: rows(hooked.gate, "SELECT * FROM question_messages") == [])
    assert hooked.receiver.kinds() == ["question.asked", "question.ended"]


async def test_where_two_must_agree_the_receiver_is_told_of_the_first(
    tmp_path: Path, receiver: Receiver, acts: list[str]
) -> None:
    policy = {**ASK_ALL, "approvals": [{"min_cost": 1, "approvers_required": 2}]}
    async with a_hook(tmp_path, receiver, sender(acts), policy=policy) as hooked:
        call_id, asked = await hooked.ask()
        assert set(asked.data["answers"]) == {"allow", "deny"}
        response = await hooked.answer(asked, "allow", "anna")
        assert response.json() == {"call_id": call_id, "approved": True, "open": True}
        updated = await receiver.told("question.updated", call_id)
        assert updated.data["approved_by"] == ["anna"]
        assert (await hooked.answer(updated, "allow", "bob")).json()["open"] is False
        await until(lambda: acts == ["hi"])
        ended = await receiver.told("question.ended", call_id)
        assert sorted(ended.data["by"]) == ["anna", "bob"]


async def test_what_is_too_long_is_sent_in_short_and_can_only_be_denied(hooked: Hooked, acts: list[str]) -> None:
    call_id, asked = await hooked.ask("long " * 20_000)
    assert not asked.data["complete"]
    assert set(asked.data["answers"]) == {"deny"}
    assert "args" not in asked.data
    assert len(asked.body) < 64_000
    assert (await hooked.answer(asked, "deny")).status_code == 200
    assert not await hooked.is_open(call_id)
    assert acts == []


async def test_no_secret_is_in_what_is_sent(tmp_path: Path, receiver: Receiver) -> None:
    @tool("mail.post", effect="write", secret=["key"])
    async def post(text: str, key: str) -> str:
        return f"{text} with {key}"

    async with a_hook(tmp_path, receiver, post) as hooked:
        call_id = await hooked.call({"text": "hi", "key": "sesame-open-0123"}, tool="mail.post")
        asked = await receiver.told("question.asked", call_id)
        assert "$secret" in asked.data["args"]["key"]
        everything = b"".join(one.body for one in receiver.delivered)
        for secret in ("sesame-open-0123", SECRET, SECRET.removeprefix("whsec_"), ANNA_TOKEN):
            assert secret.encode() not in everything


@pytest.mark.parametrize("statuses", [[500], [500, 502, 404], [301], [429]], ids=repr)
async def test_what_the_receiver_refuses_is_sent_again_under_the_same_id(
    hooked: Hooked, statuses: list[int], acts: list[str]
) -> None:
    hooked.receiver.statuses = list(statuses)
    _, asked = await hooked.ask()
    tries = hooked.receiver.refused
    assert len(tries) == len(statuses)
    assert {one.headers["webhook-id"] for one in tries} == {asked.headers["webhook-id"]}
    assert all(one.is_genuine for one in tries)
    await hooked.answer(asked)
    await until(lambda: acts == ["hi"])


async def test_redirects_are_not_followed(hooked: Hooked) -> None:
    async with Receiver().serving() as elsewhere:
        hooked.receiver.statuses, hooked.receiver.headers = [307], {"location": elsewhere.url}
        await hooked.ask()
        assert elsewhere.delivered == []
        assert [len(hooked.receiver.refused), len(hooked.receiver.delivered)] == [1, 1]


async def test_a_receiver_that_asks_for_time_gets_it_within_bounds(hooked: Hooked) -> None:
    hooked.receiver.statuses, hooked.receiver.headers = [429, 503], {"retry-after": "86400"}
    await hooked.ask()
    assert [wait_s for wait_s in hooked.pauses.taken_s if wait_s > 1] == [60.0, 60.0]


async def test_a_receiver_that_hangs_delays_no_call_and_is_tried_again(
    tmp_path: Path, receiver: Receiver, acts: list[str]
) -> None:
    receiver.hangs = 1
    async with a_hook(tmp_path, receiver, sender(acts), limits={"timeout_s": 0.1}) as hooked:
        call_id = await asyncio.wait_for(hooked.call({"text": "hi"}), 2)
        await until(lambda: "did not answer within 0.1 s" in hooked.messenger.trouble or receiver.delivered)
        asked = await receiver.told("question.asked", call_id)
        assert asked.is_genuine
        await until(hooked.messenger.healthy)


async def test_trouble_names_the_host_and_neither_url_nor_secret(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    nobody = Receiver(url=f"http://127.0.0.1:{port}/hooks/T0PSECRET")
    with caplog.at_level(logging.DEBUG):
        async with a_hook(tmp_path, nobody, sender([])) as hooked:
            await hooked.call({"text": "hi"})
            await until(lambda: hooked.messenger.trouble)
            assert "the webhook at 127.0.0.1 cannot be reached" in hooked.messenger.trouble
            assert not hooked.messenger.healthy()
    assert "T0PSECRET" not in hooked.messenger.trouble
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("agent_gate")]
    assert not any("T0PSECRET" in line or SECRET in line for line in ours)


async def test_an_end_that_cannot_be_told_is_given_up_after_a_while(
    tmp_path: Path, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_hook(tmp_path, receiver, sender([]), limits={"ending_s_max": 0.05}) as hooked:
        call_id, _ = await hooked.ask()
        receiver.statuses = [500] * 10_000
        await hooked.context.approvals.answer(call_id, approve=False, by=ANNA)
        await until(lambda: rows(hooked.gate, "SELECT * FROM question_messages") == [])
        assert f"was not told that the question about call {call_id} has ended" in caplog.text
        assert receiver.kinds() == ["question.asked"]


async def test_one_question_that_the_receiver_does_not_take_keeps_no_other_waiting(hooked: Hooked) -> None:
    hooked.receiver.statuses = [400]
    first = await hooked.call({"text": "one"})
    await until(lambda: hooked.receiver.refused)
    second, _ = await hooked.ask("two")
    await hooked.receiver.told("question.asked", first)
    assert second != first


async def test_after_a_restart_an_open_question_is_known_and_its_answer_counts(
    tmp_path: Path, receiver: Receiver, clock: HandClock, acts: list[str]
) -> None:
    async with a_hook(tmp_path, receiver, sender(acts), clock=clock) as hooked:
        call_id, asked = await hooked.ask()
    async with a_hook(tmp_path, receiver, sender(acts), clock=clock) as hooked:
        assert (await hooked.answer(asked)).status_code == 200
        await until(lambda: acts == ["hi"])
        await receiver.told("question.ended", call_id)
    assert [receiver.kinds().count(kind) for kind in ("question.asked", "question.ended")] == [1, 1]


async def test_what_ended_while_the_server_was_away_is_told_when_it_is_back(
    tmp_path: Path, receiver: Receiver, clock: HandClock
) -> None:
    async with a_hook(tmp_path, receiver, sender([]), clock=clock) as hooked:
        call_id, _ = await hooked.ask()
    clock.advance(901)
    async with a_hook(tmp_path, receiver, sender([]), clock=clock):
        ended = await receiver.told("question.ended", call_id)
    assert ended.data["resolution"] == "expired"


async def test_a_question_that_nobody_holds_is_told_as_expired_after_a_while(
    tmp_path: Path, receiver: Receiver, clock: HandClock
) -> None:
    async with a_hook(tmp_path, receiver, sender([]), clock=clock) as hooked:
        call_id, _ = await hooked.ask()
    nobody = replace(webhook_config(receiver.url), agents=())
    bounds = replace(QUICK, overdue_s=0.2)
    async with a_hook(tmp_path, receiver, sender([]), clock=clock, config=nobody, bounds=bounds):
        clock.advance(901)
        ended = await receiver.told("question.ended", call_id)
    assert ended.data["resolution"] == "expired"


async def test_another_url_is_told_of_what_is_open(
    tmp_path: Path, receiver: Receiver, clock: HandClock, acts: list[str]
) -> None:
    async with a_hook(tmp_path, receiver, sender(acts), clock=clock) as hooked:
        call_id, _ = await hooked.ask()
    async with Receiver().serving() as other:
        config = moved_to(webhook_config(receiver.url), other.url)
        async with a_hook(tmp_path, other, sender(acts), clock=clock, config=config) as hooked:
            asked = await other.told("question.asked", call_id)
            assert (await hooked.answer(asked)).status_code == 200
            await until(lambda: acts == ["hi"])
    assert receiver.kinds() == ["question.asked"]

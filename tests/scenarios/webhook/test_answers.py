"""Answers by webhook: signed, in time, once, for one question as it was sent; the rest is refused and counted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agent_gate.doors.messengers.seal import Seals, Verb
from agent_gate.doors.shapes import digest
from tests.gates import ANNA, ASK_ALL, sender, until
from tests.servers import ANNA_TOKEN
from tests.webhooks import KEY, Hooked, Receiver, a_hook, signature


def code(response: httpx2.Response) -> tuple[int, int]:
    return response.status_code, response.json()["error"]["code"]


async def test_an_answer_that_is_signed_counts(hooked: Hooked, acts: list[str]) -> None:
    call_id, asked = await hooked.ask()
    response = await hooked.answer(asked)
    assert (response.status_code, response.json()) == (200, {"call_id": call_id, "approved": True, "open": False})
    await until(lambda: acts == ["hi"])


async def test_a_no_ends_it(hooked: Hooked, acts: list[str]) -> None:
    call_id, asked = await hooked.ask()
    response = await hooked.answer(asked, "deny", "bob")
    assert response.json() == {"call_id": call_id, "approved": False, "open": False}
    ended = await hooked.receiver.told("question.ended", call_id)
    assert (ended.data["resolution"], ended.data["by"]) == ("denied", ["bob"])
    assert acts == []


async def test_a_grant_lets_the_same_call_pass_again(hooked: Hooked, acts: list[str]) -> None:
    _, asked = await hooked.ask()
    assert (await hooked.answer(asked, "grant")).status_code == 200
    await until(lambda: acts == ["hi"])
    await hooked.call({"text": "hi"})
    await until(lambda: acts == ["hi", "hi"])


async def test_the_signature_of_another_secret_is_refused_counted_and_slowed_down(hooked: Hooked) -> None:
    call_id, asked = await hooked.ask()
    forged = [await hooked.answer(asked, key=b"another key of thirty-two bytes!") for _ in range(3)]
    assert [code(one) for one in forged] == [(401, 6002)] * 3
    await hooked.refused_at_door(3, "not_authenticated")
    assert await hooked.is_open(call_id)
    guesses = [await hooked.answer(asked, key=b"x" * 32) for _ in range(40)]
    assert code(guesses[-1]) == (429, 1012)
    assert int(guesses[-1].headers["retry-after"]) >= 1


async def test_who_has_signed_rightly_lately_is_heard_while_others_guess_from_the_same_address(
    hooked: Hooked, acts: list[str]
) -> None:
    _, first = await hooked.ask("one")
    await hooked.answer(first)
    _, second = await hooked.ask("two")
    for _ in range(12):
        await hooked.answer(second, key=b"x" * 32)
    assert (await hooked.answer(second)).status_code == 200
    await until(lambda: acts == ["one", "two"])


@pytest.mark.parametrize("ago_s", [301, -301, 86_400])
async def test_what_was_signed_long_ago_or_ahead_is_refused(hooked: Hooked, ago_s: int) -> None:
    call_id, asked = await hooked.ask()
    assert code(await hooked.answer(asked, ago_s=ago_s)) == (401, 6002)
    await hooked.refused_at_door(1, "not_authenticated")
    assert await hooked.is_open(call_id)


async def test_the_same_answer_is_taken_once(tmp_path: Path, receiver: Receiver, acts: list[str]) -> None:
    policy = {**ASK_ALL, "approvals": [{"min_cost": 1, "approvers_required": 2}]}
    async with a_hook(tmp_path, receiver, sender(acts), policy=policy) as hooked:
        call_id, asked = await hooked.ask()
        assert (await hooked.answer(asked, message_id="once")).status_code == 200
        assert code(await hooked.answer(asked, message_id="once")) == (409, 6003)
        await hooked.refused_at_door(1, "not_entitled")
        again = await hooked.answer(asked, message_id="anna-once-more")
        assert again.status_code in (403, 409)
        assert await hooked.is_open(call_id)
        assert acts == []


async def test_an_answer_to_what_has_ended_does_not_count_and_is_recorded(hooked: Hooked, acts: list[str]) -> None:
    call_id, asked = await hooked.ask()
    await hooked.context.approvals.answer(call_id, approve=False, by=ANNA)
    late = await hooked.answer(asked, approver="bob")
    assert late.status_code in (404, 409)
    await until(lambda: [one[:2] for one in hooked.refused_answers()] == [("approve", "bob")])
    assert acts == []


async def test_an_answer_after_the_deadline_does_not_count(hooked: Hooked, acts: list[str]) -> None:
    _, asked = await hooked.ask()
    hooked.clock.advance(901)
    assert (await hooked.answer(asked)).status_code == 409
    assert acts == []


@pytest.mark.parametrize("approver", ["eve", "bot", "", "telegram:11", 7, None])
async def test_nobody_whom_the_configuration_does_not_know_answers(hooked: Hooked, approver: Any) -> None:
    call_id, asked = await hooked.ask()
    body = {"type": "answer", "approver": approver, "answer": asked.data["answers"]["allow"]}
    assert code(await hooked.answer(body=body)) == (403, 6003)
    await hooked.refused_at_door(1, "not_entitled")
    assert await hooked.is_open(call_id)


async def test_the_owner_of_the_agent_may_not_answer_by_webhook_either(hooked: Hooked, acts: list[str]) -> None:
    call_id, asked = await hooked.ask()
    assert code(await hooked.answer(asked, approver="carol")) == (403, 6003)
    await until(lambda: hooked.refused_answers() == [("approve", "carol", "not_entitled")])
    assert await hooked.is_open(call_id)
    assert acts == []


async def test_the_seal_of_another_question_verb_channel_or_gate_opens_nothing(hooked: Hooked, acts: list[str]) -> None:
    call_id, asked = await hooked.ask("one")
    other_id, other = await hooked.ask("two")
    deny, allow = asked.data["answers"]["deny"], other.data["answers"]["allow"]
    found = await hooked.context.approvals.question(call_id)
    assert found is not None
    telegram = Seals(hooked.gate.secrets.keyed_hash, "telegram").sealed(Verb.ALLOW, call_id, digest(found.question))
    foreign = Seals(lambda data: signature(KEY, "", "", data).encode().hex(), "webhook").sealed(
        Verb.ALLOW, call_id, digest(found.question)
    )
    forged = [
        f"a{deny[1:]}",
        allow.replace(other_id, call_id),
        f"a.{call_id}.{'0' * 32}",
        telegram.text,
        foreign.text,
    ]
    for answer in forged:
        body = {"type": "answer", "approver": "anna", "answer": answer}
        assert code(await hooked.answer(body=body)) == (403, 6003)
    await hooked.refused_at_door(len(forged), "not_entitled")
    assert await hooked.is_open(call_id)
    assert acts == []


async def test_not_even_a_genuine_seal_allows_what_was_not_sent_in_full(hooked: Hooked, acts: list[str]) -> None:
    call_id, _ = await hooked.ask("long " * 20_000)
    found = await hooked.context.approvals.question(call_id)
    assert found is not None
    sealed = Seals(hooked.gate.secrets.keyed_hash, "webhook").sealed(Verb.ALLOW, call_id, digest(found.question))
    body = {"type": "answer", "approver": "anna", "answer": sealed.text}
    assert code(await hooked.answer(body=body)) == (403, 6003)
    assert await hooked.is_open(call_id)
    assert acts == []


async def test_a_question_of_the_gates_own_sent_back_is_no_answer(hooked: Hooked) -> None:
    """Both ways are signed with one secret."""
    call_id, asked = await hooked.ask()
    async with httpx2.AsyncClient(trust_env=False) as client:
        headers = {name: value for name, value in asked.headers.items() if name.startswith(("webhook", "content-type"))}
        response = await client.post(f"{hooked.served.url}/api/v1/answers", content=asked.body, headers=headers)
    assert code(response) == (403, 6003)
    assert await hooked.is_open(call_id)


@pytest.mark.parametrize(
    "headers",
    [
        {"webhook-signature": None},
        {"webhook-id": None},
        {"webhook-timestamp": None},
        {"webhook-signature": ""},
        {"webhook-signature": "v1"},
        {"webhook-signature": "v1,"},
        {"webhook-signature": "v2,AAAA"},
        {"webhook-signature": " ".join(["v1,AAAA"] * 100)},
        {"webhook-timestamp": "1e9"},
        {"webhook-timestamp": "-1"},
        {"webhook-timestamp": "9" * 40},
        {"webhook-id": "a.b"},
        {"webhook-id": "x" * 65},
    ],
    ids=repr,
)
async def test_headers_of_another_shape_are_refused(hooked: Hooked, headers: Mapping[str, str | None]) -> None:
    call_id, asked = await hooked.ask()
    assert code(await hooked.answer(asked, headers=headers)) == (401, 6002)
    assert await hooked.is_open(call_id)


async def test_a_token_opens_nothing_here_and_a_signature_nothing_elsewhere(hooked: Hooked) -> None:
    call_id, asked = await hooked.ask()
    bearer = {"authorization": f"Bearer {ANNA_TOKEN}", "webhook-signature": None}
    assert code(await hooked.answer(asked, headers=bearer)) == (401, 6002)
    timestamp, body = str(int(hooked.clock.now())), b"{}"
    signed = {"webhook-id": "a", "webhook-timestamp": timestamp, "content-type": "application/json"}
    signed["webhook-signature"] = signature(KEY, "a", timestamp, body)
    async with httpx2.AsyncClient(trust_env=False, base_url=hooked.served.url) as client:
        for path in (f"/api/v1/pending/{call_id}/approve", "/api/v1/pause"):
            assert (await client.post(path, content=body, headers=signed)).status_code == 401


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b'{"approver": "anna"}',
        b'{"type": "answer", "approver": "anna"}',
        b'{"type": "answer", "approver": "anna", "answer": 1}',
        b'{"type": "answer", "approver": "anna", "answer": "yes"}',
        b'{"type": "answer", "approver": "anna", "approver": "bob", "answer": "a.b.c"}',
        json.dumps({"type": "answer", "approver": "anna", "answer": "a.b." + "0" * 32, "more": 1}).encode(),
    ],
    ids=repr,
)
async def test_bodies_of_another_shape_are_refused(hooked: Hooked, body: bytes) -> None:
    response = await hooked.answer(body=body)
    assert response.status_code in (400, 403)
    assert "error" in response.json()


async def test_a_body_is_read_no_further_than_its_bound(hooked: Hooked) -> None:
    _, asked = await hooked.ask()
    body = {"type": "answer", "approver": "anna", "answer": asked.data["answers"]["allow"], "note": "n" * 20_000}
    assert code(await hooked.answer(body=body)) == (413, 1006)


async def test_of_a_question_that_never_was_nothing_is_told(hooked: Hooked) -> None:
    body = {"type": "answer", "approver": "anna", "answer": f"a.01K0000000000000000000000B.{'0' * 32}"}
    assert (await hooked.answer(body=body)).status_code == 404


async def test_a_note_is_recorded_with_the_answer(hooked: Hooked) -> None:
    call_id, asked = await hooked.ask()
    body = {
        "type": "answer",
        "approver": "anna",
        "answer": asked.data["answers"]["deny"],
        "note": "not on a Friday",
    }
    assert (await hooked.answer(body=body)).status_code == 200
    recorded = await hooked.gate.ledger.entries_of(call_id)
    assert any(b"not on a Friday" in (entry.body or b"") for entry in recorded)

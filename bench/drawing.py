"""Text of agents, drawn for people: the slowest of many odd texts of a megabyte, against decoding the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from agent_gate.doors.messengers.phones import notice
from agent_gate.doors.messengers.render import render
from agent_gate.model.approval import Question
from agent_gate.model.codec import canonical, restore
from bench.figure import Figure, at_most, microseconds_each

BYTES = 1_000_000
PARTS = (
    "lorem ipsum dolor ", "\u200b", "\u200b\u200c", "漢字", "שלום ", "א1", "😀", "a\u0336", " x  y", " \t", "\n",
    " x\n", "\u2068a", "\u2068א\u2069",
)  # fmt: skip


def figures() -> Iterator[Figure]:
    """What is drawn on the event loop; a page is drawn in a thread of its own."""
    drawings: dict[str, Callable[[Question], object]] = {
        "a question for a chat, the slowest text": render,
        "a question for a phone, the slowest text": notice.render,
    }
    questions = [_question(part * (BYTES // len(part.encode()))) for part in PARTS]
    decoding = [_ms(partial(restore, canonical(question.args["text"]))) for question in questions]
    for name, draw in drawings.items():
        each = zip((_ms(partial(draw, question)) for question in questions), decoding, strict=True)
        ours, reference = max(each, key=lambda pair: pair[0] / pair[1])
        yield at_most(name, ours, reference, "decoding the same bytes", "ms", 10)


def _ms(work: Callable[[], object]) -> float:
    return microseconds_each(work, 3) / 1_000


def _question(text: str) -> Question:
    return Question(
        call_id="c1",
        request_id="r1",
        project="default",
        agent_id="bot",
        owner="",
        tool="mail.send",
        args={"text": text},
        signatures=(f"mail.send({text})",),
        reasons=(),
        bound_hash="0" * 64,
        nonce="n" * 32,
        policy_hash="1" * 64,
        approver_roles=(),
        approvers_required=1,
        created_at=0.0,
        expires_at=900.0,
    )

"""Which message shows which question, and bringing each message to what the ledger says now."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, replace
from typing import Protocol

import orjson

from agent_gate.doors.context import ServerContext
from agent_gate.doors.shapes import digest
from agent_gate.doors.telegram.buttons import Seals, Verb
from agent_gate.doors.telegram.endings import Ended, Open, standing
from agent_gate.doors.telegram.faults import TelegramFault, Uneditable
from agent_gate.doors.telegram.render import ELSEWHERE, closed, render
from agent_gate.model.approval import Question
from agent_gate.model.entry import GATE_PROJECT, DropMessage, KeepMessage, Work
from agent_gate.model.limits import MESSAGES_WAITING_MAX, TELEGRAM_OVERDUE_S, TELEGRAM_QUESTIONS_MAX

CHANNEL = "telegram"
CHANGED = "Changed since it was shown: it can no longer be answered here."

SHOWN_AGAIN = "Shown again below."


@dataclass(frozen=True, slots=True)
class Button:
    label: str
    data: str


class Chat(Protocol):
    """The one chat; raises TelegramFault."""

    async def send(self, text: str, buttons: tuple[Button, ...] = (), reply_to: int | None = None) -> int: ...

    async def edit(self, message_id: int, text: str, buttons: tuple[Button, ...] = ()) -> None: ...


@dataclass(frozen=True, slots=True)
class Shown:
    """A message as it stands in the chat."""

    message_id: int
    nonce: str
    digest: str
    state: str
    """`open` with who has agreed so far, or the last headline."""
    expires_at: float = 0.0
    unattended: str = ""
    """What it says of the process that holds the call, where that is gone."""
    about: str = ""
    """Kept in memory only; after a restart one line stands for it."""

    @property
    def is_open(self) -> bool:
        return self.state.startswith("open")


class Board:
    """Sends and edits the messages about questions; `refresh` is called by one task only."""

    def __init__(self, context: ServerContext, chat: Chat, chat_id: int) -> None:
        self._gate, self._ledger, self._approvals = context.gate, context.gate.ledger, context.approvals
        self._chat, self._chat_id = chat, chat_id
        self._seals = Seals(context.gate.secrets.keyed_hash)
        self._elsewhere = _console_of(context)
        self._shown: dict[str, Shown] = {}
        self._again: set[str] = set()
        self._overdue: dict[str, float] = {}
        """Since when a deadline is seen to have passed of which the ledger says nothing yet."""
        self._closed: deque[int] = deque(maxlen=MESSAGES_WAITING_MAX)
        """Messages that have said their last word; a press may be on its way still."""
        self.left_out = False
        """Whether a question found no room in the chat."""

    async def recall(self) -> None:
        """What an earlier process showed; a message in another chat than today's is none."""
        for call_id, reference in await self._ledger.messages(CHANNEL):
            fields = orjson.loads(reference)
            if fields.pop("chat_id") == self._chat_id:
                self._shown[call_id] = Shown(**fields)
            else:
                await self._drop(call_id)

    def known(self) -> list[str]:
        return list(self._shown)

    def has_room(self) -> bool:
        return sum(shown.is_open for shown in self._shown.values()) < TELEGRAM_QUESTIONS_MAX

    def next_deadline(self) -> float:
        return min((shown.expires_at for shown in self._shown.values() if shown.is_open), default=float("inf"))

    def show_again(self, call_id: str) -> None:
        """The next time it is brought up to date, a new message takes the place of the old one."""
        self._again.add(call_id)

    async def is_stale(self, call_id: str, *, unattended: bool) -> bool:
        """Whether its message says something else than the ledger."""
        shown = self._shown.get(call_id)
        if shown is None:
            return True
        now = await standing(call_id, self._ledger, self._gate.clock)
        if isinstance(now, Ended):
            return self._is_final(call_id, now) or shown.state != now.headline
        drawn = shown.state, shown.nonce, bool(shown.unattended)
        return drawn != (_state_of(now), now.question.nonce, unattended)

    async def refresh(self, call_id: str) -> None:
        """Bring one message up to date; raises TelegramFault where that must be tried again."""
        shown, again = self._shown.get(call_id), call_id in self._again
        self._again.discard(call_id)
        try:
            now = await standing(call_id, self._ledger, self._gate.clock)
            if isinstance(now, Open):
                await self._show_open(call_id, now, shown, again=again)
            elif shown is not None:
                await self._show_ended(call_id, now, shown)
        except TelegramFault:
            if again:
                self._again.add(call_id)
            raise

    def remembers(self, message_id: int) -> bool:
        return message_id in self._closed or any(shown.message_id == message_id for shown in self._shown.values())

    async def let_go(self, call_id: str, message_id: int) -> None:
        """A message that nobody remembers: let it lead to the one that is kept up to date, or say how things ended."""
        now = await standing(call_id, self._ledger, self._gate.clock)
        if call_id in self._shown:
            await self._chat.edit(message_id, SHOWN_AGAIN)
        elif isinstance(now, Ended) and now.about:
            await self._chat.edit(message_id, closed(now.headline, now.about))

    async def _show_open(self, call_id: str, now: Open, shown: Shown | None, *, again: bool) -> None:
        question = now.question
        unattended = await self._approvals.unattended(question)
        rendered = render(question, now.approved_by, elsewhere=self._elsewhere, unattended=unattended)
        wanted = Shown(
            0, question.nonce, digest(question), _state_of(now), question.expires_at, unattended, rendered.about
        )
        buttons = self._buttons(question, complete=rendered.complete)
        if shown is None and not self.has_room():
            self.left_out = True
        elif shown is None:
            await self._keep(call_id, replace(wanted, message_id=await self._chat.send(rendered.text, buttons)))
        elif shown.nonce == wanted.nonce and shown.digest != wanted.digest:
            await self._void(call_id, shown)
        elif again:
            message_id = await self._chat.send(rendered.text, buttons)
            await self._keep(call_id, replace(wanted, message_id=message_id))
            await self._replaced(shown.message_id)
        elif (shown.nonce, shown.state, shown.unattended) != (wanted.nonce, wanted.state, wanted.unattended):
            edited = await self._edited(shown, rendered.text, wanted.state, buttons)
            await self._keep(call_id, replace(wanted, message_id=edited.message_id))
        else:
            self._shown[call_id] = replace(wanted, message_id=shown.message_id)

    async def _void(self, call_id: str, shown: Shown) -> None:
        """The stored question is not the one that was shown, though it claims to be."""
        if shown.state != CHANGED:
            await self._keep(call_id, await self._edited(shown, closed(CHANGED, shown.about), CHANGED))

    async def _show_ended(self, call_id: str, now: Ended, shown: Shown) -> None:
        if shown.state != now.headline:
            text = closed(now.headline, shown.about or now.about)
            shown = await self._edited(shown, text, now.headline)
        if self._is_final(call_id, now):
            self._closed.append(shown.message_id)
            await self._drop(call_id)
        else:
            await self._keep(call_id, shown)

    def _is_final(self, call_id: str, now: Ended) -> bool:
        """What nobody holds is never recorded as expired; after a while, in real time, that is how it ended."""
        if now.recorded:
            return now.final
        seconds = asyncio.get_running_loop().time()
        return seconds - self._overdue.setdefault(call_id, seconds) >= TELEGRAM_OVERDUE_S

    async def _edited(self, shown: Shown, text: str, state: str, buttons: tuple[Button, ...] = ()) -> Shown:
        """Where the message cannot be changed any more, a reply says it."""
        message_id = shown.message_id
        try:
            await self._chat.edit(message_id, text, buttons)
        except Uneditable:
            message_id = await self._chat.send(text, buttons, reply_to=message_id)
        return replace(shown, message_id=message_id, state=state)

    async def _replaced(self, message_id: int) -> None:
        try:
            await self._chat.edit(message_id, SHOWN_AGAIN)
        except TelegramFault:
            return  # its buttons say the same as those of the new message

    async def _keep(self, call_id: str, shown: Shown) -> None:
        fields = {
            "chat_id": self._chat_id,
            "message_id": shown.message_id,
            "nonce": shown.nonce,
            "digest": shown.digest,
            "state": shown.state,
            "expires_at": shown.expires_at,
            "unattended": shown.unattended,
        }
        self._shown[call_id] = shown
        await self._ledger.commit(
            Work(GATE_PROJECT, side_tables=(KeepMessage(call_id, CHANNEL, orjson.dumps(fields).decode()),))
        )

    async def _drop(self, call_id: str) -> None:
        await self._ledger.commit(Work(GATE_PROJECT, side_tables=(DropMessage(call_id, CHANNEL),)))
        self._shown.pop(call_id, None)
        self._overdue.pop(call_id, None)

    def _buttons(self, question: Question, *, complete: bool) -> tuple[Button, ...]:
        deny = Button("Deny", self._seals.data(Verb.DENY, question))
        if not complete:
            return (deny,)
        allow = Button("Allow", self._seals.data(Verb.ALLOW, question))
        if self._approvals.why_once_only(question):
            return allow, deny
        return allow, deny, Button("Allow 1 h × 5", self._seals.data(Verb.GRANT, question))


def _state_of(now: Open) -> str:
    return f"open {' '.join(now.approved_by)}".strip()


def _console_of(context: ServerContext) -> str:
    """Where the console is, if the configuration says so."""
    gateway = context.config.gateway
    if gateway.host in ("0.0.0.0", "::", ""):  # noqa: S104 -- every address of this machine is none to name
        return ELSEWHERE
    host = f"[{gateway.host}]" if ":" in gateway.host else gateway.host
    return (
        f"the console ({'https' if gateway.tls else 'http'}://{host}:{gateway.port}/console), or `agent-gate pending`"
    )

"""The board of every messenger: which place shows which question, each brought to what the ledger says now."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import orjson

from agent_gate.doors.context import ServerContext
from agent_gate.doors.messengers.bounds import MessengerBounds
from agent_gate.doors.messengers.channel import SHOW_ANEW, Channel, Message, PlaceRefused
from agent_gate.doors.messengers.status import CHANGED, NOT_CONCERNED, Ended, Open, status_of
from agent_gate.doors.shapes import digest
from agent_gate.model.approval import Question
from agent_gate.model.entry import GATE_PROJECT
from agent_gate.model.work import DropMessage, KeepMessage, Work

_SENDING = "…"
"""The state of a message that is on its way."""
_OPEN = "open "
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Shown:
    """A question as people were last told of it."""

    nonce: str
    digest: str
    expires_at: float
    on: Mapping[str, Message]
    """The message at each place."""
    unattended: str = ""
    """Words in them on the process that holds the call, where that is gone."""

    @property
    def is_open(self) -> bool:
        """Say whether somebody could still take it for a question."""
        return not self.on or any(one.state.startswith((_OPEN, _SENDING)) or not one.state for one in self.on.values())

    def is_of(self, question: Question) -> bool:
        """Say whether this is what was shown; one that claims to be, and is not, was changed behind our back."""
        return self.nonce != question.nonce or self.digest == digest(question)


class Board:
    """Shows, updates and closes the messages about questions; `refresh` is called by one task only."""

    def __init__(self, context: ServerContext, channel: Channel, bounds: MessengerBounds) -> None:
        self._gate, self._ledger, self._approvals = context.gate, context.gate.ledger, context.approvals
        self._channel, self._bounds = channel, bounds
        self._shown: dict[str, Shown] = {}
        self._ended: dict[str, Shown] = {}
        """Questions of which the last word is said; an answer may be on its way still."""
        self._overdue: dict[str, float] = {}
        """Since when a deadline is seen to have passed of which the ledger says nothing yet."""
        self._refused: dict[str, tuple[str, float]] = {}
        """Places that are left alone for a while: why, and since when."""
        self.left_out = False
        """True where a question found no room."""

    @property
    def trouble(self) -> str:
        """A refusal is told until it would have come again, were there something to say."""
        seconds = asyncio.get_running_loop().time()
        return next((why for why, at in self._refused.values() if seconds < at + 2 * self._bounds.place_again_s), "")

    async def recall(self) -> None:
        """Go on with what an earlier process showed; what cannot be read is shown anew."""
        for call_id, reference in await self._ledger.messages(self._channel.name):
            try:
                fields = orjson.loads(reference)
                on = {place: Message(*kept) for place, kept in fields.pop("on").items()}
                self._shown[call_id] = Shown(**fields, on=on)
            except (ValueError, KeyError, TypeError):
                await self._forget(call_id)

    def known(self) -> list[str]:
        return list(self._shown)

    def shows(self, call_id: str) -> bool:
        return call_id in self._shown

    def remembers(self, reference: str) -> bool:
        """Say whether a message is one of those that are kept up to date, or have said their last word."""
        known = (*self._shown.values(), *self._ended.values())
        return any(one.reference == reference for shown in known for one in shown.on.values())

    def digest_of(self, call_id: str) -> str:
        """Of a question that the ledger may have taken off the table; empty where nobody remembers it."""
        shown = self._shown.get(call_id) or self._ended.get(call_id)
        return shown.digest if shown else ""

    def has_room(self) -> bool:
        return sum(shown.is_open for shown in self._shown.values()) < self._channel.questions_max

    def next_deadline(self) -> float:
        due = (shown.expires_at for call, shown in self._shown.items() if shown.is_open and call not in self._overdue)
        return min(due, default=float("inf"))

    def show_anew(self, call_id: str, *places: str) -> None:
        """Have it shown as if for the first time, in these places or in all."""
        shown = self._shown.get(call_id)
        if shown is not None:
            on = {
                place: replace(message, state=SHOW_ANEW) if place in (places or shown.on) else message
                for place, message in shown.on.items()
            }
            self._shown[call_id] = replace(shown, on=on)

    async def is_stale(self, call_id: str, *, unattended: bool) -> bool:
        """Say whether people see something else than the ledger says."""
        shown = self._shown.get(call_id)
        if shown is None:
            return True
        now = await status_of(call_id, self._ledger, self._gate.clock)
        if isinstance(now, Ended):
            return self._is_final(call_id, now) or not shown.on or _says_otherwise(shown, now)
        if not shown.is_of(now.question):
            return _says_otherwise(shown, CHANGED)
        if bool(shown.unattended) is not unattended:
            return True
        concerned, state = self._concerned(now), _state(replace(now, unattended=shown.unattended))
        return bool(self._due(concerned, state, shown)) or not shown.on.keys() <= concerned

    async def refresh(self, call_id: str) -> None:
        """Bring every place up to date; raises Undelivered where that must be tried again."""
        now, shown = await status_of(call_id, self._ledger, self._gate.clock), self._shown.get(call_id)
        if isinstance(now, Open) and (shown is None or shown.is_of(now.question)):
            await self._show(call_id, now, shown)
        elif isinstance(now, Open):
            await self._close(call_id, CHANGED)
        elif shown is not None:
            await self._end(call_id, now)

    async def _show(self, call_id: str, now: Open, shown: Shown | None) -> None:
        concerned = self._concerned(now)
        if shown is None and concerned and not self.has_room():
            self.left_out = True
            return
        now = replace(now, unattended=await self._approvals.unattended(now.question))
        state, question, on = _state(now), now.question, shown.on if shown else {}
        shown = Shown(question.nonce, digest(question), question.expires_at, on, now.unattended)
        due = self._due(concerned, state, shown)
        if concerned or shown.on:
            self._shown[call_id] = shown
        anew = any(place not in on or on[place].state == SHOW_ANEW for place in due)
        if anew and not self._channel.closes_by_reference:
            # Noted first: a place that was told of it must be told of its end, whatever happens in between.
            self._shown[call_id] = replace(shown, on={**dict.fromkeys(due, Message()), **on})
            await self._keep(call_id)
        for place in due:
            await self._show_at(place, now, on.get(place), state)
        if due:
            await self._keep(call_id)
        await self._close(call_id, NOT_CONCERNED, [place for place in on if place not in concerned])

    async def _show_at(self, place: str, now: Open, before: Message | None, state: str) -> None:
        call_id = now.question.call_id
        kept = self._set(call_id, place, replace(before or Message(), state=_SENDING))
        message = before or replace(kept, state=SHOW_ANEW)
        try:
            message = replace(await self._channel.show(place, now, before), state=state)
            self._refused.pop(place, None)
        except PlaceRefused as refused:
            self._leave_alone(place, str(refused))
        finally:
            if self._shown[call_id].on[place] is not kept:  # shown anew meanwhile, as it is after an answer from there
                message = replace(message, state=SHOW_ANEW)
            self._set(call_id, place, message)

    async def _end(self, call_id: str, now: Ended) -> None:
        if self._is_final(call_id, now):
            now = replace(now, final=True)
        await self._close(call_id, now)
        if now.final or not self._shown[call_id].on:
            await self._forget(call_id)

    async def _close(self, call_id: str, now: Ended, places: Iterable[str] | None = None) -> None:
        """Keep what was closed before anything else goes wrong: nobody is told the same twice."""
        before = self._shown[call_id].on if call_id in self._shown else {}
        for place, message in before.items():
            if message.state == now.headline or (places is not None and place not in places):
                continue
            closed = await self._channel.close(place, call_id, now, message)
            if closed != message:
                self._set(call_id, place, closed)
                await self._keep(call_id)

    def _concerned(self, now: Open) -> set[str]:
        return {place for place in self._channel.places if self._channel.concerns(place, now)}

    def _due(self, concerned: Iterable[str], state: str, shown: Shown) -> list[str]:
        """The places that are to show something else, without those that have refused it a moment ago."""
        seconds, again_s = asyncio.get_running_loop().time(), self._bounds.place_again_s
        return [
            place
            for place in self._channel.places
            if place in concerned
            and (place not in shown.on or shown.on[place].state != state)
            and (place not in self._refused or seconds >= self._refused[place][1] + again_s)
        ]

    def _is_final(self, call_id: str, now: Ended) -> bool:
        """Tell whether it ended for good: what nobody holds is never recorded as expired, but is so after a while."""
        if now.recorded:
            return now.final
        seconds = asyncio.get_running_loop().time()
        return seconds - self._overdue.setdefault(call_id, seconds) >= self._bounds.overdue_s

    def _leave_alone(self, place: str, why: str) -> None:
        if place not in self._refused:
            _log.warning("%s", why)
        self._refused[place] = why, asyncio.get_running_loop().time()

    def _set(self, call_id: str, place: str, message: Message | None) -> Message:
        shown = self._shown[call_id]
        on = {key: one for key, one in shown.on.items() if key != place or message is not None}
        self._shown[call_id] = replace(shown, on=on if message is None else {**on, place: message})
        return message or Message()

    async def _keep(self, call_id: str) -> None:
        shown = self._shown[call_id]
        fields = {
            "nonce": shown.nonce,
            "digest": shown.digest,
            "expires_at": shown.expires_at,
            "on": {place: (one.reference, one.state) for place, one in shown.on.items()},
            "unattended": shown.unattended,
        }
        kept = KeepMessage(call_id, self._channel.name, orjson.dumps(fields).decode())
        await self._ledger.commit(Work(GATE_PROJECT, changes=(kept,)))

    async def _forget(self, call_id: str) -> None:
        await self._ledger.commit(Work(GATE_PROJECT, changes=(DropMessage(call_id, self._channel.name),)))
        self._overdue.pop(call_id, None)
        shown = self._shown.pop(call_id, None)
        if shown is not None:
            self._ended[call_id] = shown
        while len(self._ended) > self._bounds.waiting_max:
            del self._ended[next(iter(self._ended))]


def _state(now: Open) -> str:
    return " ".join((f"{_OPEN}{now.question.nonce}", *now.approved_by, now.unattended))


def _says_otherwise(shown: Shown, now: Ended) -> bool:
    return any(message.state != now.headline for message in shown.on.values())

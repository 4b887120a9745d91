"""Which phone shows which question, and bringing each phone to what the ledger says now."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import orjson

from agent_gate.doors.context import ServerContext
from agent_gate.doors.home_assistant.actions import Seals, Verb
from agent_gate.doors.home_assistant.notice import render
from agent_gate.doors.home_assistant.phones import Button, Line, Phone
from agent_gate.doors.shapes import digest
from agent_gate.gate.approvals import OpenQuestion
from agent_gate.model.entry import GATE_PROJECT
from agent_gate.model.limits import HOME_PHONE_AGAIN_S, HOME_QUESTIONS_MAX, MESSAGES_WAITING_MAX
from agent_gate.model.work import DropMessage, KeepMessage, Work
from agent_gate.pipeline.hold import not_entitled
from agent_gate.services.home_assistant.faults import Refused

CHANNEL = "home_assistant"
_UNKNOWN, _SENDING = "", "…"
"""What a phone shows of which nobody knows whether it still shows what it was sent, or that is being sent to it."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Shown:
    """A question as phones were last told of it."""

    nonce: str
    digest: str
    expires_at: float
    on: Mapping[str, str]
    """What each phone shows, by service."""


class Board:
    """Sends and clears the notifications about questions; `refresh` is called by one task only."""

    def __init__(self, context: ServerContext, phones: Sequence[Phone], line: Line) -> None:
        self._gate, self._ledger, self._approvals = context.gate, context.gate.ledger, context.approvals
        self._phones, self._line = phones, line
        self._seals = Seals(context.gate.secrets.keyed_hash)
        self._shown: dict[str, Shown] = {}
        self._ended: dict[str, str] = {}
        """Digests of questions that are on no phone any more; a press may be on its way still."""
        self._refused: dict[str, tuple[str, float]] = {}
        """Phones that are left alone for a while: why, and since when."""
        self.left_out = False
        """Whether a question found no room."""

    @property
    def trouble(self) -> str:
        """A refusal is told until it would have come again, were there something to say."""
        unknown = next((phone.service for phone in self._phones if not self._line.reaches(phone.service)), None)
        if unknown is not None:
            return f"home assistant has no notify.{unknown}; look for the name of the phone among its actions"
        seconds = asyncio.get_running_loop().time()
        return next((why for why, at in self._refused.values() if seconds < at + 2 * HOME_PHONE_AGAIN_S), "")

    async def recall(self) -> None:
        """What an earlier process showed; what was pressed meanwhile was not heard, so it is shown again."""
        for call_id, reference in await self._ledger.messages(CHANNEL):
            fields = orjson.loads(reference)
            on = dict.fromkeys(fields.pop("phones"), _UNKNOWN)
            self._shown[call_id] = Shown(**fields, on=on)

    def show_again(self) -> None:
        """Presses may have been lost, and phones take away what was pressed."""
        for call_id, shown in self._shown.items():
            self._shown[call_id] = replace(shown, on=dict.fromkeys(shown.on, _UNKNOWN))

    def pressed(self, call_id: str, service: str) -> None:
        shown = self._shown.get(call_id)
        if shown is not None and service in shown.on:
            self._shown[call_id] = replace(shown, on={**shown.on, service: _UNKNOWN})

    def known(self) -> list[str]:
        return list(self._shown)

    def has_room(self) -> bool:
        return len(self._shown) < HOME_QUESTIONS_MAX

    def next_deadline(self) -> float:
        return min((shown.expires_at for shown in self._shown.values()), default=float("inf"))

    def digest_of(self, call_id: str) -> str:
        """Of a question that the ledger may have taken off the table; empty where nobody remembers it."""
        shown = self._shown.get(call_id)
        return shown.digest if shown else self._ended.get(call_id, "")

    async def is_stale(self, call_id: str, *, unattended: bool) -> bool:
        """Whether a phone shows something else than the ledger says."""
        now, shown = await self._approvals.question_alone(call_id), self._shown.get(call_id)
        if now is None or shown is None:
            return True
        wanted = self._wanted(now, shown, unattended=unattended)
        return bool(self._to_show(wanted, shown)) or any(service not in wanted for service in shown.on)

    async def refresh(self, call_id: str) -> None:
        """Bring every phone up to date; raises Undelivered where that must be tried again."""
        now, shown = await self._approvals.question(call_id), self._shown.get(call_id)
        wanted = self._wanted(now, shown, unattended=bool(now.unattended)) if now else {}
        if now is not None and shown is None and wanted:
            if not self.has_room():
                self.left_out = True
                return
            shown = Shown(now.question.nonce, digest(now.question), now.question.expires_at, {})
            self._shown[call_id] = shown
        if shown is None:
            return
        if now is not None:
            await self._show(now, wanted, shown)
        await self._clear(call_id, wanted)
        if now is None:
            await self._drop(call_id)

    def _wanted(self, now: OpenQuestion, shown: Shown | None, *, unattended: bool) -> dict[str, str]:
        """What each phone is to show: the question, where its owner may answer it and has not done so yet."""
        question = now.question
        if shown and shown.nonce == question.nonce and shown.digest != digest(question):
            return {}  # the stored question is not the one that was shown, though it claims to be
        state = " ".join((question.nonce, "unattended" if unattended else "attended", *now.approved_by))
        return {
            phone.service: state
            for phone in self._phones
            if phone.approver.id not in now.approved_by and not_entitled(question, phone.approver) is None
        }

    def _to_show(self, wanted: Mapping[str, str], shown: Shown) -> list[Phone]:
        seconds = asyncio.get_running_loop().time()
        return [
            phone
            for phone in self._phones
            if phone.service in wanted
            and shown.on.get(phone.service) != wanted[phone.service]
            and seconds >= self._refused.get(phone.service, ("", float("-inf")))[1] + HOME_PHONE_AGAIN_S
        ]

    async def _show(self, now: OpenQuestion, wanted: Mapping[str, str], shown: Shown) -> None:
        """Noted first: a phone that was told of it must be told of its end, whatever happens in between."""
        due, question = self._to_show(wanted, shown), now.question
        if not due:
            return
        on = {**shown.on, **{phone.service: _SENDING for phone in due}}
        shown = Shown(question.nonce, digest(question), question.expires_at, on)
        await self._keep(question.call_id, shown)
        for phone in due:
            try:
                await self._send(now, shown.digest, phone)
            except Refused as refused:
                self._leave_alone(phone.service, refused)
            else:
                self._refused.pop(phone.service, None)
                if self._shown[question.call_id].on.get(phone.service) == _SENDING:  # else it was pressed meanwhile
                    self._shows(question.call_id, phone.service, wanted[phone.service])

    async def _send(self, now: OpenQuestion, seal_of: str, phone: Phone) -> None:
        question = now.question
        notice = render(question, now.approved_by, now.unattended)
        left_s = int(question.left_s(self._gate.clock))
        verbs = (Verb.ALLOW, Verb.DENY) if notice.complete else (Verb.DENY,)
        actions = {verb: self._seals.action(verb, question.call_id, seal_of, phone) for verb in verbs}
        buttons = [Button(verb.name.capitalize(), actions[verb], allows=verb is Verb.ALLOW) for verb in verbs]
        tag = self._seals.tag(question.call_id, phone.service)
        await self._line.show(question.call_id, phone.service, tag, notice.title, notice.text, buttons, max(left_s, 1))

    def _leave_alone(self, service: str, refused: Refused) -> None:
        why = f"home assistant does not write to notify.{service}: {refused.problem.detail}"
        if service not in self._refused:
            _log.warning("%s", why)
        self._refused[service] = why, asyncio.get_running_loop().time()

    async def _clear(self, call_id: str, wanted: Mapping[str, str]) -> None:
        shown = self._shown.get(call_id)
        for service in [one for one in (shown.on if shown else ()) if one not in wanted]:
            try:
                await self._line.clear(call_id, service, self._seals.tag(call_id, service))
            except Refused:
                _log.debug("there is no notify.%s any more", service)
            self._shows(call_id, service, None)

    def _shows(self, call_id: str, service: str, state: str | None) -> None:
        shown = self._shown[call_id]
        on = {key: value for key, value in shown.on.items() if key != service}
        self._shown[call_id] = replace(shown, on=on if state is None else {**on, service: state})

    async def _keep(self, call_id: str, shown: Shown) -> None:
        fields = {
            "nonce": shown.nonce,
            "digest": shown.digest,
            "expires_at": shown.expires_at,
            "phones": list(shown.on),
        }
        self._shown[call_id] = shown
        kept = KeepMessage(call_id, CHANNEL, orjson.dumps(fields).decode())
        await self._ledger.commit(Work(GATE_PROJECT, changes=(kept,)))

    async def _drop(self, call_id: str) -> None:
        await self._ledger.commit(Work(GATE_PROJECT, changes=(DropMessage(call_id, CHANNEL),)))
        shown = self._shown.pop(call_id, None)
        if shown is not None:
            self._ended[call_id] = shown.digest
        while len(self._ended) > MESSAGES_WAITING_MAX:
            del self._ended[next(iter(self._ended))]

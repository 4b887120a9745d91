"""Commands in the chat: `/pending`, `/pause`, `/resume`; heard from the people on the list, in that chat only."""

from __future__ import annotations

import logging

from agent_gate.doors.context import ServerContext
from agent_gate.doors.messengers.render import moment, one_line
from agent_gate.doors.messengers.telegram.updates import Command
from agent_gate.gate.approvals import OpenQuestion
from agent_gate.model.approval import Approver
from agent_gate.model.bounds import TELEGRAM_COMMAND_AGE_S_MAX, TELEGRAM_RESENT_MAX, TELEGRAM_STRANGERS_MAX
from agent_gate.model.errors import GateError, Problem

_log = logging.getLogger(__name__)

HELP = "/pending shows the open questions again; /pause denies every call until /resume."


class Commands:
    def __init__(self, context: ServerContext, chat_id: int) -> None:
        self._gate, self._approvals, self._identities = context.gate, context.approvals, context.identities
        self._chat_id = chat_id
        self._strangers: set[tuple[int, int]] = set()

    async def obey(self, command: Command) -> tuple[str, list[str]]:
        """Return the reply, and the questions to show again; nothing at all to somebody who may not ask."""
        who = f"telegram:{command.user_id}"
        approver = self._identities.telegram_user(command.user_id)
        if approver is None or command.chat_id != self._chat_id:
            self._gate.count_refusal(who, Problem(6003, "not somebody whose commands are heard here"))
            self._say_whom(command)
            return "", []
        try:
            return await self._obey(command, approver)
        except GateError as error:
            return f"That did not work: {error.problem}", []

    def _say_whom(self, command: Command) -> None:
        """Once for each: who sets the bot up reads here which numbers the configuration needs."""
        stranger = command.user_id, command.chat_id
        if stranger not in self._strangers and len(self._strangers) < TELEGRAM_STRANGERS_MAX:
            self._strangers.add(stranger)
            _log.warning(
                "a command of user %d in chat %d was not heard: compare messenger.telegram.allowed_users and chat_id",
                *stranger,
            )

    async def _obey(self, command: Command, approver: Approver) -> tuple[str, list[str]]:
        match command.name:
            case "pending":
                return await self._pending()
            case "pause" | "resume":
                return await self._switch(command, approver), []
            case "start" | "help":
                return HELP, []
            case _:
                return "", []

    async def _pending(self) -> tuple[str, list[str]]:
        questions = await self._approvals.questions()
        if not questions:
            return "No question is open.", []
        shown = questions[:TELEGRAM_RESENT_MAX]
        lines = [f"{len(questions)} open; the first {len(shown)} follow:", *map(_line, shown)]
        if await self._approvals.paused():
            lines.insert(0, "The gate is paused: every call is denied.")
        return "\n".join(lines), [one.question.call_id for one in shown]

    async def _switch(self, command: Command, approver: Approver) -> str:
        if not approver.has_role("admin"):
            self._gate.count_refusal(approver.id, Problem(6003, f"only an admin may /{command.name}"))
            return f"Only an admin may /{command.name}."
        if self._gate.clock.now() - command.sent_at > TELEGRAM_COMMAND_AGE_S_MAX:
            return f"This /{command.name} of {moment(command.sent_at)} came too late. Send it again if you mean it."
        if command.name == "pause":
            new = await self._approvals.pause(approver, command.text)
            return "Paused: every call is denied until /resume." if new else "The gate is paused already."
        new = await self._approvals.resume(approver, command.text)
        return "Resumed." if new else "The gate is not paused."


def _line(one: OpenQuestion) -> str:
    question = one.question
    return f"- {one_line(question.tool)} of {one_line(question.agent_id)}, until {moment(question.expires_at)}"

"""Halls whose messenger is Telegram, with our own Bot API behind it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agent_gate import Outcome
from agent_gate.config import ApproverConfig, Config, MessengerConfig, TelegramConfig
from agent_gate.doors.context import ServerContext
from agent_gate.doors.messengers.bounds import MessengerBounds
from agent_gate.doors.messengers.messenger import Messenger
from agent_gate.doors.messengers.telegram.adapter import TelegramAdapter
from agent_gate.gate.gate import Gate
from agent_gate.model.call import CallRequest
from agent_gate.model.tool import Json
from tests.bot_api import CHAT_ID, TOKEN, BotApi, Message
from tests.gates import ASK_ALL, HandClock, entries, until
from tests.servers import a_config, a_context

ANNA_ID, BOB_ID, DORA_ID, STRANGER_ID = 11, 12, 14, 666
"""An admin and an operator that the configuration knows, one who is only on the list, and one who is not."""

NO_HURRY = MessengerBounds()
QUICK = MessengerBounds(look_interval_s=0.01, look_again_s=0.05)
"""Looks all the time."""


@dataclass
class Pauses:
    """Waits that are noted, and over at once."""

    taken_s: list[float] = field(default_factory=list)

    async def __call__(self, seconds: float) -> None:
        self.taken_s.append(seconds)
        await asyncio.sleep(0.005)


@dataclass(frozen=True)
class Chat:
    """A gate with its messenger, and the chat as people see it."""

    context: ServerContext
    messenger: Messenger
    api: BotApi
    pauses: Pauses

    @property
    def gate(self) -> Gate:
        return self.context.gate

    async def ask(self, text: str = "hi", *, tool: str = "mail.send", agent: str = "bot") -> tuple[str, Message]:
        """A call that is held, and the message about it."""
        outcome = await self.call({"text": text}, tool=tool, agent=agent, wait=False)
        return outcome.call_id, await self.api.message(outcome.call_id)

    async def call(
        self, args: Mapping[str, Json], *, tool: str = "mail.send", agent: str = "bot", wait: bool = True
    ) -> Outcome:
        request = CallRequest(self.context.identities.agents[agent], tool, args, wait=wait, door="websocket")
        return await self.gate.submit(request)

    async def press(self, message: Message, label: str, user_id: int = ANNA_ID, **options: Any) -> str:
        """What the one who presses is told."""
        return await self.api.notice(await self.api.press(message, label, user_id=user_id, **options))

    async def closed(self, call_id: str, headline: str) -> Message:
        """The message about a call, once it says how it ended."""
        await self.api.until(lambda: any(headline in one.text for one in self.api.with_text(call_id)))
        return next(one for one in self.api.with_text(call_id) if headline in one.text)

    async def is_open(self, call_id: str) -> bool:
        return await self.context.approvals.question(call_id) is not None

    async def refused_at_door(self, who: str) -> None:
        """Return once the record says that somebody was turned away."""

        def counted() -> bool:
            refused = [one for row in entries(self.gate, "door") for one in row["body"].get("refused", ())]
            return any((one["agent_id"], one["why"]) == (who, "not_entitled") for one in refused)

        await until(counted)

    def refused_answers(self) -> list[tuple[str, str, str]]:
        """(verb, by whom, why)"""
        found = [row["body"].get("refused_answer") for row in entries(self.gate, "door")]
        return [(one["answer"], one["by"], one["error"]["name"]) for one in found if one]

    def mutate(self, call_id: str, old: str, new: str) -> None:
        """Change the stored question behind the gate's back."""
        with closing(sqlite3.connect(self.context.gate.ledger.storage.path)) as connection, connection:
            connection.execute(
                "UPDATE pending_requests SET question = replace(question, ?1, ?2), args = replace(args, ?1, ?2)"
                " WHERE call_id = ?3",
                (old, new, call_id),
            )


def telegram_config(url: str, **changes: Any) -> Config:
    telegram = TelegramConfig(TOKEN, CHAT_ID, [ANNA_ID, BOB_ID, DORA_ID], url)
    config = a_config(messenger=MessengerConfig("telegram", telegram), **changes)
    user_ids = {"anna": ANNA_ID, "bob": BOB_ID}
    approvers: tuple[ApproverConfig, ...] = config.approvers
    return replace(config, approvers=tuple(replace(one, telegram_user_id=user_ids.get(one.id)) for one in approvers))


def in_chat(api: BotApi, chat_id: int) -> Config:
    return _with_telegram(api, chat_id=chat_id)


def with_token(api: BotApi, token: str) -> Config:
    return _with_telegram(api, token=token)


def _with_telegram(api: BotApi, **changes: Any) -> Config:
    config = telegram_config(api.url)
    assert config.messenger is not None
    assert config.messenger.telegram is not None
    return replace(config, messenger=MessengerConfig("telegram", replace(config.messenger.telegram, **changes)))


@asynccontextmanager
async def a_chat(
    directory: Path,
    api: BotApi,
    *tools: Any,
    policy: Any = ASK_ALL,
    clock: HandClock | None = None,
    config: Config | None = None,
    bounds: MessengerBounds = NO_HURRY,
    limits: Mapping[str, int] | None = None,
    **options: Any,
) -> AsyncIterator[Chat]:
    """One life of a server: it takes over what its predecessor held; `limits` are those of the adapter."""
    config = config or telegram_config(api.url)
    assert config.messenger is not None
    assert config.messenger.telegram is not None
    pauses = Pauses()
    adapter = TelegramAdapter(config.messenger.telegram, **(limits or {}))
    messenger = Messenger(adapter, pause=pauses, bounds=bounds)
    async with a_context(
        directory, policy, *tools, config=config, people=messenger, clock=clock or HandClock(), **options
    ) as context:
        messenger.attach(context)
        await messenger.start()
        try:
            await context.mailbox.take_over_held(context.identities.agents)
            yield Chat(context, messenger, api, pauses)
        finally:
            await messenger.close()

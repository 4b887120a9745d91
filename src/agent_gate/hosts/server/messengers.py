"""Every messenger of the configuration, as one notifier: the one place that knows them all."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from agent_gate.config import Config, MessengerConfig
from agent_gate.doors.context import ServerContext
from agent_gate.doors.messengers.adapter import Adapter
from agent_gate.doors.messengers.messenger import Messenger
from agent_gate.doors.messengers.telegram.adapter import TelegramAdapter
from agent_gate.doors.messengers.webhook.adapter import WebhookAdapter
from agent_gate.model.approval import Question
from agent_gate.ports.watching import Notifier


class Messengers(Notifier):
    """By the names under which `/readyz` tells how they are."""

    def __init__(self, messengers: Mapping[str, Messenger]) -> None:
        self._messengers = messengers

    async def ask(self, question: Question) -> None:
        for messenger in self._messengers.values():
            await messenger.ask(question)

    async def resolved(self, question: Question, resolution: str, by: str) -> None:
        for messenger in self._messengers.values():
            await messenger.resolved(question, resolution, by)

    @asynccontextmanager
    async def at_work(self, context: ServerContext) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for name, messenger in self._messengers.items():
                messenger.attach(context)
                context.checks[name] = partial(_is_healthy, messenger)
                stack.push_async_callback(messenger.close)
                await messenger.start()
            yield


def messengers_of(config: Config) -> Messengers | None:
    """None where the configuration has none."""
    found: dict[str, Messenger] = {}
    several = len(config.every_messenger) > 1
    for one in config.every_messenger:
        found[f"messenger:{one.type}" if several else "messenger"] = Messenger(_adapter_of(one))
    home = config.services.homeassistant
    if home is not None and home.approvals:
        # 100 ms, which only those pay who have a home.
        from agent_gate.doors.messengers.phones.adapter import PhonesAdapter  # noqa: PLC0415

        found["home_assistant approvals"] = Messenger(PhonesAdapter(home))
    return Messengers(found) if found else None


def _adapter_of(settings: MessengerConfig) -> Adapter:
    if settings.webhook is not None:
        return WebhookAdapter(settings.webhook)
    assert settings.telegram is not None, "the configuration was checked"
    return TelegramAdapter(settings.telegram)


async def _is_healthy(messenger: Messenger) -> bool | str:
    return messenger.healthy() or messenger.trouble

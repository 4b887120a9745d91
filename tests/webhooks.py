"""Servers whose messenger is a webhook, and a receiver that checks signatures by its own means."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import itertools
import json
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx2
from starlette.types import Receive, Scope, Send

from agent_gate.config import Config, MessengerConfig, WebhookConfig
from agent_gate.doors.context import ServerContext
from agent_gate.doors.messengers.bounds import MessengerBounds
from agent_gate.doors.messengers.messenger import Messenger
from agent_gate.doors.messengers.webhook.adapter import WebhookAdapter
from agent_gate.gate.gate import Gate
from agent_gate.model.call import CallRequest
from tests.chats import QUICK, Pauses
from tests.gates import ASK_ALL, QUICK_SUMMARY, HandClock, entries, until
from tests.servers import Served, a_config, a_server, listening

KEY = bytes(range(32))
SECRET = "whsec_" + base64.b64encode(KEY).decode()
OTHER_SECRET = "whsec_" + base64.b64encode(bytes(32)).decode()
_numbers = itertools.count()


def signature(key: bytes, message_id: str, timestamp: str, body: bytes) -> str:
    """As the specification has it, written once more."""
    content = b".".join((message_id.encode(), timestamp.encode(), body))
    return "v1," + base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()


@dataclass(frozen=True)
class Delivered:
    headers: Mapping[str, str]
    body: bytes

    @property
    def message(self) -> Any:
        return json.loads(self.body)

    @property
    def data(self) -> Any:
        return self.message["data"]

    @property
    def is_genuine(self) -> bool:
        timestamp, message_id = self.headers["webhook-timestamp"], self.headers["webhook-id"]
        expected = signature(KEY, message_id, timestamp, self.body)
        return hmac.compare_digest(self.headers["webhook-signature"], expected)


@dataclass
class Receiver:
    """Takes what it is sent, answers with the statuses that it was told to, then with 204."""

    statuses: list[int] = field(default_factory=list)
    headers: Mapping[str, str] = field(default_factory=dict)
    delivered: list[Delivered] = field(default_factory=list)
    refused: list[Delivered] = field(default_factory=list)
    url: str = ""
    hangs: int = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body, more = b"", True
        while more:
            event = await receive()
            body, more = body + event.get("body", b""), event.get("more_body", False)
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        one, status = Delivered(headers, body), self.statuses.pop(0) if self.statuses else 204
        if self.hangs:
            self.hangs -= 1
            await asyncio.sleep(3_600)
        (self.delivered if status == 204 else self.refused).append(one)
        told = [(name.encode(), value.encode()) for name, value in self.headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": told})
        await send({"type": "http.response.body", "body": b""})

    async def told(self, kind: str, call_id: str = "", times: int = 1) -> Delivered:
        """The message of this kind, once it has come."""

        def found() -> list[Delivered]:
            return [
                one
                for one in self.delivered
                if one.message["type"] == kind and (not call_id or one.data["call_id"] == call_id)
            ]

        await until(lambda: len(found()) >= times)
        return found()[times - 1]

    def kinds(self) -> list[str]:
        return [one.message["type"] for one in self.delivered]

    @asynccontextmanager
    async def serving(self, path: str = "/hooks/gate") -> AsyncIterator[Receiver]:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.url = f"http://127.0.0.1:{listener.getsockname()[1]}{path}"
            async with listening(self, listener):
                yield self


@dataclass(frozen=True)
class Hooked:
    """A server that runs, its messenger, and who receives its questions."""

    served: Served
    messenger: Messenger
    receiver: Receiver
    clock: HandClock
    pauses: Pauses

    @property
    def context(self) -> ServerContext:
        return self.served.context

    @property
    def gate(self) -> Gate:
        return self.context.gate

    async def call(self, args: Mapping[str, Any], *, tool: str = "mail.send", agent: str = "bot") -> str:
        request = CallRequest(self.context.identities.agents[agent], tool, args, wait=False, door="websocket")
        return (await self.gate.submit(request)).call_id

    async def ask(self, text: str = "hi", **options: Any) -> tuple[str, Delivered]:
        """A call that is held, and what the receiver was told of it."""
        call_id = await self.call({"text": text}, **options)
        return call_id, await self.receiver.told("question.asked", call_id)

    async def answer(
        self,
        asked: Delivered | None = None,
        verb: str = "allow",
        approver: str = "anna",
        *,
        key: bytes = KEY,
        ago_s: int = 0,
        message_id: str | None = None,
        body: Mapping[str, Any] | bytes | None = None,
        headers: Mapping[str, str | None] | None = None,
    ) -> httpx2.Response:
        """Signed as the receiver would sign it, unless a part of it is given."""
        if body is None:
            assert asked is not None
            body = {"type": "answer", "approver": approver, "answer": asked.data["answers"][verb]}
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        message_id = message_id or f"answer_{next(_numbers)}"
        timestamp = str(int(self.clock.now()) - ago_s)
        signed: dict[str, str | None] = {
            "content-type": "application/json",
            "webhook-id": message_id,
            "webhook-timestamp": timestamp,
            "webhook-signature": signature(key, message_id, timestamp, content),
            **(headers or {}),
        }
        sent = {name: value for name, value in signed.items() if value is not None}
        async with httpx2.AsyncClient(trust_env=False) as client:
            return await client.post(f"{self.served.url}/api/v1/answers", content=content, headers=sent)

    async def is_open(self, call_id: str) -> bool:
        return await self.context.approvals.question(call_id) is not None

    async def refused_at_door(self, times: int, name: str = "") -> None:
        """Return once the record says that so many answers were turned away, as it names the reason."""

        def count() -> int:
            refused = [one for row in entries(self.gate, "door") for one in row["body"].get("refused", ())]
            return sum(int(one["count"]) for one in refused if not name or one["why"] == name)

        await until(lambda: count() >= times)

    def refused_answers(self) -> list[tuple[str, str, str]]:
        """(verb, by whom, why)"""
        found = [row["body"].get("refused_answer") for row in entries(self.gate, "door")]
        return [(one["answer"], one["by"], one["error"]["name"]) for one in found if one]


def webhook_config(url: str, **changes: Any) -> Config:
    return a_config(messenger=MessengerConfig("webhook", webhook=WebhookConfig(url, SECRET)), **changes)


@asynccontextmanager
async def a_hook(
    directory: Path,
    receiver: Receiver,
    *tools: Any,
    policy: Any = ASK_ALL,
    clock: HandClock | None = None,
    config: Config | None = None,
    bounds: MessengerBounds = QUICK,
    limits: Mapping[str, float] | None = None,
    **options: Any,
) -> AsyncIterator[Hooked]:
    """One life of a server: it takes over what its predecessor held; `limits` are those of the adapter."""
    options.setdefault("gate_bounds", QUICK_SUMMARY)
    config, clock, pauses = config or webhook_config(receiver.url), clock or HandClock(), Pauses()
    webhook = next(one.webhook for one in config.every_messenger if one.webhook)
    messenger = Messenger(WebhookAdapter(webhook, **(limits or {})), pause=pauses, bounds=bounds)
    async with a_server(directory, policy, *tools, config=config, people=messenger, clock=clock, **options) as served:
        messenger.attach(served.context)
        await messenger.start()
        try:
            await served.context.mailbox.take_over_held(served.context.identities.agents)
            yield Hooked(served, messenger, receiver, clock, pauses)
        finally:
            await messenger.close()


def moved_to(config: Config, url: str) -> Config:
    return replace(config, messenger=MessengerConfig("webhook", webhook=WebhookConfig(url, SECRET)))

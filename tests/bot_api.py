"""A Bot API of our own: real HTTP on loopback, long polling with offsets, and every way in which it can be hard."""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from tests.gates import PATIENCE_S
from tests.loopback import Loopback

TOKEN = "123456789:AAtheTokenOfTheBotIsNeverToBeSeen0"
CHAT_ID, OTHER_CHAT_ID = -100123, -100456
"""The bot is a member of both."""
BOT_ID, BOT_NAME = 123456789, "gate_bot"
TEXT_UNITS_MAX = 4_096
BUTTON_BYTES_MAX = 64


@dataclass(frozen=True)
class Message:
    """As people see it now."""

    message_id: int
    chat_id: int
    text: str
    buttons: Mapping[str, str] = field(default_factory=dict)
    """Data by label."""
    reply_to: int | None = None
    editable: bool = True


@dataclass(frozen=True)
class Fault:
    """What befalls one request: an error of Telegram's, or of the network."""

    status: int = 0
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    drop: bool = False
    """The connection ends without an answer."""
    done: bool = False
    """The request has been carried out all the same."""
    result: Any = None
    """What is answered instead of the truth."""


class ApiError(Exception):
    def __init__(self, status: int, description: str, **parameters: Any) -> None:
        super().__init__(description)
        self.fault = Fault(status, description, parameters)


class BotApi(Loopback):
    """One bot, its chats, and the updates that it has not confirmed yet."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        super().__init__()
        self._now = now
        self.messages: dict[int, Message] = {}
        self.edits: list[Message] = []
        """Every change of a message, in order."""
        self.notices: dict[str, Mapping[str, Any]] = {}
        """What each press was answered with, by callback id."""
        self.calls: list[tuple[str, Mapping[str, Any]]] = []
        self._updates: list[tuple[int, Any]] = []
        """Each with its number, which it says itself if it is well-formed."""
        self._faults: dict[str, deque[Fault]] = {}
        self._next_update, self._next_message, self._next_callback = 1_000, 1, 1
        self._news = asyncio.Condition()
        self._poll = 0
        """The number of the youngest getUpdates: Telegram ends the one before it."""

    def fail(self, method: str, status: int, description: str = "", times: int = 1, **parameters: Any) -> None:
        self._faults.setdefault(method, deque()).extend([Fault(status, description, parameters)] * times)

    def drop(self, method: str, *, done: bool = False, times: int = 1) -> None:
        """The connection breaks: before anything was done, or after it, so that only the answer is lost."""
        self._faults.setdefault(method, deque()).extend([Fault(drop=True, done=done)] * times)

    def garble(self, method: str, result: Any) -> None:
        """The next answer is not what the method promises."""
        self._faults.setdefault(method, deque()).append(Fault(result=result))

    def calm(self) -> None:
        """Nothing goes wrong any more."""
        self._faults.clear()
        self.is_down = False

    async def go_down(self) -> None:
        await super().go_down()
        async with self._news:  # who polls is gone
            self._news.notify_all()

    async def press(
        self,
        message: Message,
        label: str = "",
        *,
        user_id: int,
        data: str | None = None,
        chat_id: int | None = None,
        name: str = "somebody",
        times: int = 1,
    ) -> str:
        """A person presses a button, or a forger says that one did; the id of the press."""
        callback_id = f"callback{self._next_callback}"
        self._next_callback += 1
        shown = self.messages.get(message.message_id, message)
        shown = replace(shown, chat_id=chat_id or message.chat_id)
        query = {
            "id": callback_id,
            "from": _person(user_id, name),
            "chat_instance": "1",
            "data": message.buttons[label] if data is None else data,
            "message": self._json(shown),
        }
        for _ in range(times):
            await self._update(callback_query=query)
        return callback_id

    async def say(self, text: str, *, user_id: int, chat_id: int = CHAT_ID, ago_s: float = 0.0) -> None:
        said = {
            "message_id": self._next_message,
            "date": int(self._now() - ago_s),
            "chat": {"id": chat_id, "type": "supergroup", "title": "approvals"},
            "from": _person(user_id, "somebody"),
            "text": text,
        }
        self._next_message += 1
        await self._update(message=said)

    async def repeat_last_update(self) -> None:
        """Telegram delivers an update again though it was confirmed."""
        async with self._news:
            self._updates.append(self._last)
            self._news.notify_all()

    async def update(self, content: Any, *, says: Any = None) -> int:
        """Anything at all as the next update; its number, which stands in it unless it `says` otherwise."""
        async with self._news:
            number, self._next_update = self._next_update, self._next_update + 1
            if isinstance(content, Mapping):
                content = {"update_id": number, **content, **(says or {})}
            self._updates.append((number, content))
            self._news.notify_all()
        return number

    @property
    def unconfirmed(self) -> list[int]:
        return [number for number, _ in self._updates]

    async def until(self, holds: Callable[[], Any]) -> Any:
        """Wait for something that shows in the chat or in the requests."""
        async with asyncio.timeout(PATIENCE_S), self._news:
            return await self._news.wait_for(holds)

    async def message(self, text: str = "", number: int = 1) -> Message:
        """The `number`-th message that holds a text."""
        await self.until(lambda: self.count(text) >= number)
        return self.with_text(text)[number - 1]

    async def notice(self, callback_id: str) -> str:
        await self.until(lambda: callback_id in self.notices)
        return str(self.notices[callback_id].get("text", ""))

    def with_text(self, text: str) -> list[Message]:
        return [message for message in self.messages.values() if text in message.text]

    def count(self, text: str = "") -> int:
        return len(self.with_text(text))

    def called(self, method: str) -> int:
        return sum(name == method for name, _ in self.calls)

    async def _update(self, **content: Any) -> None:
        async with self._news:
            self._last = self._next_update, {"update_id": self._next_update, **content}
            self._next_update += 1
            self._updates.append(self._last)
            self._news.notify_all()

    async def respond(self, path: str, fields: Mapping[str, str]) -> tuple[int, Any] | None:
        try:
            return 200, {"ok": True, "result": await self._do(path, fields)}
        except ApiError as error:
            fault = error.fault
        if fault.drop:
            return None
        answer = {"ok": False, "error_code": fault.status, "description": fault.description}
        return fault.status, {**answer, "parameters": dict(fault.parameters)} if fault.parameters else answer

    async def _do(self, path: str, fields: Mapping[str, str]) -> Any:
        prefix, _, method = path.rpartition("/")
        if prefix != f"/bot{TOKEN}":
            raise ApiError(401, "Unauthorized")
        works = {
            "getMe": self._get_me,
            "getUpdates": self._get_updates,
            "sendMessage": self._send_message,
            "editMessageText": self._edit_message_text,
            "answerCallbackQuery": self._answer_callback_query,
        }
        if method not in works:
            raise ApiError(404, "Not Found")
        async with self._news:
            self.calls.append((method, fields))
            self._news.notify_all()
        faults = self._faults.get(method)
        fault = faults.popleft() if faults else None
        if fault is not None and fault.result is not None:
            return fault.result
        if fault is not None and not fault.done:
            raise _raised(fault)
        result = await works[method](fields)
        if fault is not None:
            raise _raised(fault)
        return result

    async def _get_me(self, fields: Mapping[str, str]) -> Any:
        return {"id": BOT_ID, "is_bot": True, "first_name": "Gate", "username": BOT_NAME}

    async def _get_updates(self, fields: Mapping[str, str]) -> Any:
        offset, wait_s, limit = (int(fields.get(key, default)) for key, default in _POLL.items())
        async with self._news:
            self._poll += 1
            poll = self._poll
            self._updates = [(number, update) for number, update in self._updates if number >= offset]
            self._news.notify_all()
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._news.wait_for(lambda: self._updates or self._poll != poll or self.is_down)
            if self._poll != poll:
                raise ApiError(409, "Conflict: terminated by other getUpdates request")
            return [update for _, update in self._updates[:limit]]

    async def _send_message(self, fields: Mapping[str, str]) -> Any:
        _check_text(fields)
        chat_id = int(fields["chat_id"])
        if chat_id not in (CHAT_ID, OTHER_CHAT_ID):
            raise ApiError(400, "Bad Request: chat not found")
        reply_to = json.loads(fields["reply_parameters"])["message_id"] if "reply_parameters" in fields else None
        async with self._news:
            message = Message(self._next_message, chat_id, fields["text"], _buttons(fields), reply_to)
            self._next_message += 1
            self.messages[message.message_id] = message
            self._news.notify_all()
        return self._json(message)

    async def _edit_message_text(self, fields: Mapping[str, str]) -> Any:
        _check_text(fields)
        old = self.messages.get(int(fields["message_id"]))
        if old is None or int(fields["chat_id"]) != old.chat_id:
            raise ApiError(400, "Bad Request: message to edit not found")
        if not old.editable:
            raise ApiError(400, "Bad Request: message can't be edited")
        new = replace(old, text=fields["text"], buttons=_buttons(fields))
        if new == old:
            raise ApiError(
                400,
                "Bad Request: message is not modified: specified new message content and reply markup"
                " are exactly the same as a current content and reply markup of the message",
            )
        async with self._news:
            self.messages[new.message_id] = new
            self.edits.append(new)
            self._news.notify_all()
        return self._json(new)

    async def _answer_callback_query(self, fields: Mapping[str, str]) -> Any:
        async with self._news:
            self.notices[fields["callback_query_id"]] = fields
            self._news.notify_all()
        return True

    def _json(self, message: Message) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "message_id": message.message_id,
            "date": int(self._now()),
            "chat": {"id": message.chat_id, "type": "supergroup", "title": "approvals"},
            "text": message.text,
        }
        if message.buttons:
            keys = [{"text": label, "callback_data": data} for label, data in message.buttons.items()]
            fields["reply_markup"] = {"inline_keyboard": [keys]}
        return fields


_POLL = {"offset": "0", "timeout": "0", "limit": "100"}


def _raised(fault: Fault) -> ApiError:
    error = ApiError(fault.status, fault.description)
    error.fault = fault
    return error


def _person(user_id: int, name: str) -> dict[str, Any]:
    return {"id": user_id, "is_bot": False, "first_name": name, "username": name}


def _check_text(fields: Mapping[str, str]) -> None:
    if not fields.get("text"):
        raise ApiError(400, "Bad Request: message text is empty")
    if len(fields["text"].encode("utf-16-le")) // 2 > TEXT_UNITS_MAX:
        raise ApiError(400, "Bad Request: message is too long")


def _buttons(fields: Mapping[str, str]) -> dict[str, str]:
    keyboard = json.loads(fields.get("reply_markup") or "{}").get("inline_keyboard", [])
    buttons = {key["text"]: key["callback_data"] for row in keyboard for key in row}
    if any(len(data.encode()) > BUTTON_BYTES_MAX for data in buttons.values()):
        raise ApiError(400, "Bad Request: BUTTON_DATA_INVALID")
    return buttons

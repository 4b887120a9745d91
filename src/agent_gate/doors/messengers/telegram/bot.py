"""The bot, by python-telegram-bot; the only file that knows it, and the token is put into the address behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote, urlencode

import httpx
import orjson
import telegram
from telegram.error import BadRequest, ChatMigrated, Conflict, Forbidden, InvalidToken, NetworkError, TelegramError
from telegram.request import HTTPXRequest

from agent_gate.config import TelegramConfig
from agent_gate.doors.messengers.render import units
from agent_gate.doors.messengers.telegram.faults import Flooded, Refused, Taken, TelegramFault, Uneditable, Unreachable
from agent_gate.doors.messengers.telegram.reading import updates_in
from agent_gate.doors.messengers.telegram.updates import Button, Update
from agent_gate.model.bounds import TELEGRAM_NOTICE_CHARS_MAX, TELEGRAM_TIMEOUT_S

_IN_PLACE_OF_TOKEN = "TOKEN"  # noqa: S105 -- what stands in every address that a log or an error could show
_FLOOD_STATUS = 429
_HEARD = '["message","callback_query"]'
_UNEDITABLE = ("message to edit not found", "message can't be edited", "message_id_invalid")


class TelegramBot:
    """Raises TelegramFault, whatever goes wrong."""

    def __init__(self, settings: TelegramConfig) -> None:
        self._chat_id = settings.chat_id
        self._requests = _Request(settings.token), _Request(settings.token)
        base_url = f"{settings.api_base_url.rstrip('/')}/bot"
        updates, others = self._requests
        self._updates_url = f"{base_url}{_IN_PLACE_OF_TOKEN}/getUpdates"
        self._bot = telegram.Bot(_IN_PLACE_OF_TOKEN, base_url, request=others, get_updates_request=updates)
        self.name = ""

    async def introduce(self) -> None:
        """Find out the bot's own name, and whether the token is good."""
        async with _translated():
            self.name = (await self._bot.get_me()).username or ""

    async def updates(self, offset: int | None, wait_s: int) -> list[Update]:
        """Wait for news; asking from an offset on tells Telegram to forget what came before it.

        Past the library's own way, which reads all updates or none: one that it cannot read would come back for ever.
        """
        wanted = {"timeout": wait_s, "allowed_updates": _HEARD, **({} if offset is None else {"offset": offset})}
        async with _translated():
            answer = await self._requests[0].post(
                f"{self._updates_url}?{urlencode(wanted)}", read_timeout=wait_s + TELEGRAM_TIMEOUT_S
            )
        return updates_in(answer, self.name)

    async def send(self, text: str, buttons: tuple[Button, ...] = (), reply_to: int | None = None) -> int:
        reply = None if reply_to is None else telegram.ReplyParameters(reply_to, allow_sending_without_reply=True)
        async with _translated():
            message = await self._bot.send_message(
                self._chat_id, text, reply_markup=_keyboard(buttons), reply_parameters=reply, **_plain(text)
            )
        return message.message_id

    async def edit(self, message_id: int, text: str, buttons: tuple[Button, ...] = ()) -> None:
        async with _translated():
            try:
                await self._bot.edit_message_text(
                    text, self._chat_id, message_id, reply_markup=_keyboard(buttons), **_plain(text)
                )
            except BadRequest as error:
                if "not modified" not in error.message.lower():  # otherwise it says so already
                    raise

    async def notify(self, callback_id: str, text: str, *, alert: bool) -> None:
        """Tell the one who pressed a button; nobody else sees it."""
        async with _translated():
            await self._bot.answer_callback_query(callback_id, text[:TELEGRAM_NOTICE_CHARS_MAX], show_alert=alert)

    async def close(self) -> None:
        for request in self._requests:
            await request.shutdown()


class _Flood(TelegramError):
    def __init__(self, retry_after_s: float) -> None:
        super().__init__("flood control")
        self.retry_after_s = retry_after_s


class _Request(HTTPXRequest):
    def __init__(self, token: str) -> None:
        super().__init__(
            connection_pool_size=8,
            read_timeout=TELEGRAM_TIMEOUT_S,
            write_timeout=TELEGRAM_TIMEOUT_S,
            connect_timeout=TELEGRAM_TIMEOUT_S,
            pool_timeout=TELEGRAM_TIMEOUT_S,
            httpx_kwargs={"transport": _WithToken(token), "trust_env": False},
        )

    async def do_request(self, *args: Any, **options: Any) -> tuple[int, bytes]:
        """Telegram's wish to wait is read here, where it is a number and nothing else."""
        code, payload = await super().do_request(*args, **options)
        if code == _FLOOD_STATUS:
            raise _Flood(_retry_after_s(payload))
        return code, payload


class _WithToken(httpx.AsyncBaseTransport):
    """Puts the token into the address at the last moment: no log and no error of the layers above can hold it."""

    def __init__(self, token: str) -> None:
        self._token = quote(token, safe=":").encode()
        self._transport = httpx.AsyncHTTPTransport(trust_env=False)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        path = request.url.raw_path.replace(f"/bot{_IN_PLACE_OF_TOKEN}/".encode(), b"/bot" + self._token + b"/", 1)
        return await self._transport.handle_async_request(
            httpx.Request(
                request.method,
                request.url.copy_with(raw_path=path),
                headers=request.headers,
                stream=request.stream,
                extensions=request.extensions,
            )
        )

    async def aclose(self) -> None:
        await self._transport.aclose()


@asynccontextmanager
async def _translated() -> AsyncIterator[None]:
    try:
        yield
    except TelegramError as error:
        raise _fault_of(error) from None
    except Exception as error:
        raise Unreachable(f"what Telegram answered cannot be read: {type(error).__name__}") from None


def _fault_of(error: TelegramError) -> TelegramFault:
    match error:
        case _Flood():
            return Flooded(error.retry_after_s)
        case Conflict():
            return Taken(
                "somebody else hears this bot's updates: stop the other process, or give this gate a bot of its own"
                f" ({error.message})"
            )
        case InvalidToken():
            return Refused("Telegram does not know this bot: check messenger.telegram.token")
        case ChatMigrated():
            return Refused(f"the group has moved: set messenger.telegram.chat_id to {error.new_chat_id}")
        case BadRequest() if any(part in error.message.lower() for part in _UNEDITABLE):
            return Uneditable(error.message)
        case BadRequest() | Forbidden():
            return Refused(
                f"Telegram refuses ({error.message}): check messenger.telegram.chat_id, and that the bot is in it"
            )
        case NetworkError():
            return Unreachable(f"Telegram cannot be reached ({error.message})")
        case _:
            return Unreachable(f"Telegram failed ({error.message})")


def _retry_after_s(payload: bytes) -> float:
    try:
        return max(1.0, float(orjson.loads(payload)["parameters"]["retry_after"]))
    except (ValueError, KeyError, TypeError):
        return 1.0


def _plain(text: str) -> Mapping[str, Any]:
    """As it is written: all of it fixed-width text, in which Telegram finds no links, names or commands to tap."""
    whole = telegram.MessageEntity(telegram.MessageEntity.PRE, 0, units(text))
    return {"entities": [whole], "link_preview_options": telegram.LinkPreviewOptions(is_disabled=True)}


def _keyboard(buttons: tuple[Button, ...]) -> telegram.InlineKeyboardMarkup | None:
    """Two in a row, so that a thumb does not slip from yes to no."""
    keys = [telegram.InlineKeyboardButton(button.label, callback_data=button.data) for button in buttons]
    return telegram.InlineKeyboardMarkup([keys[:2], keys[2:]] if keys[2:] else [keys]) if keys else None

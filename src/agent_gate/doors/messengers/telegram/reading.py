"""Updates as Telegram sends them, read one by one: of each the few fields that count, whatever else it holds."""

from __future__ import annotations

from collections.abc import Mapping

from agent_gate.doors.messengers.telegram.faults import Unreachable
from agent_gate.doors.messengers.telegram.updates import Command, Press, Update
from agent_gate.model.tool import Json

_NUMBER_MAX = 2**63 - 1


def updates_in(answer: Json, bot_name: str) -> list[Update]:
    """Each with its number, also those that say nothing to us: who does not count them hears them again for ever."""
    if not isinstance(answer, list):
        raise Unreachable("what Telegram answered cannot be read: it is no list of updates")
    numbered = [(number, update) for update in answer if (number := _number_of(update)) is not None]
    if answer and not numbered:
        raise Unreachable("what Telegram answered cannot be read: its updates have no numbers")
    return [(number, _heard(update, bot_name)) for number, update in numbered]


def _number_of(update: Json) -> int | None:
    number = _integer(_object(update).get("update_id"))
    return number if number is not None and number >= 0 else None


def _heard(update: Mapping[str, Json], bot_name: str) -> Press | Command | None:
    if isinstance(update.get("callback_query"), dict):
        return _press(update["callback_query"])
    return _command(_object(update.get("message")), bot_name)


def _press(query: Mapping[str, Json]) -> Press | None:
    callback_id, user_id, data = query.get("id"), _person(query), query.get("data")
    if not isinstance(callback_id, str) or user_id is None:
        return None
    below = _object(query.get("message"))
    chat_id = _integer(_object(below.get("chat")).get("id"))
    # Of a message that Telegram no longer shows it tells a date of 0, and not whether it has buttons.
    has_buttons = not below.get("date") or below.get("reply_markup") is not None
    message_id = _integer(below.get("message_id")) or 0
    return Press(callback_id, user_id, chat_id, message_id, data if isinstance(data, str) else "", has_buttons)


def _command(message: Mapping[str, Json], bot_name: str) -> Command | None:
    user_id, chat_id = _person(message), _integer(_object(message.get("chat")).get("id"))
    message_id, sent_at = _integer(message.get("message_id")), _integer(message.get("date"))
    text = message.get("text")
    if user_id is None or chat_id is None or message_id is None or sent_at is None:
        return None
    if not isinstance(text, str) or not text.startswith("/"):
        return None
    word, _, rest = text.partition(" ")
    name, _, address = word[1:].partition("@")
    if address and address.lower() != bot_name.lower():
        return None
    return Command(user_id, chat_id, message_id, name.lower(), rest.strip(), float(sent_at))


def _person(said: Mapping[str, Json]) -> int | None:
    """Find whose act it is; None where it is nobody's: of a channel, of one who hides behind the group, of a bot."""
    sender = _object(said.get("from"))
    if sender.get("is_bot") is not False or said.get("sender_chat") is not None:
        return None
    return _integer(sender.get("id"))


def _object(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, dict) else {}


def _integer(value: Json) -> int | None:
    fits = isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _NUMBER_MAX
    return value if fits else None

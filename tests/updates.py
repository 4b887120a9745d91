"""Updates of every kind that the Bot API knows, and what they look like with a field missing or of another type."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from tests.bot_api import CHAT_ID

PERSON = {"id": 11, "is_bot": False, "first_name": "Anna"}
ANONYMOUS = {"id": 1087968824, "is_bot": True, "first_name": "Group", "username": "GroupAnonymousBot"}
GROUP = {"id": CHAT_ID, "type": "supergroup", "title": "approvals"}
CHANNEL = {"id": -100999, "type": "channel", "title": "news"}


def _message(**fields: Any) -> dict[str, Any]:
    return {"message_id": 7, "date": 1_700_000_000, "chat": GROUP, "from": PERSON, "text": "/pending", **fields}


def _without(fields: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in names}


_MESSAGES: Mapping[str, Mapping[str, Any]] = {
    "of a person": _message(),
    "without from": _without(_message(), "from"),
    "of an anonymous admin": _message(**{"from": ANONYMOUS}, sender_chat=GROUP),
    "of a channel in the group": _message(**{"from": {**ANONYMOUS, "id": 136817688}}, sender_chat=CHANNEL),
    "as a chat, with a person": _message(sender_chat=CHANNEL),
    "forwarded by itself": _message(
        sender_chat=CHANNEL, is_automatic_forward=True, forward_origin={"type": "channel", "chat": CHANNEL, "date": 1}
    ),
    "about the group": _without(_message(new_chat_title="x", pinned_message=_message()), "text"),
    "with media": _without(_message(photo=[{"file_id": "x", "file_unique_id": "y", "width": 1, "height": 1}]), "text"),
    "of a new kind": _without(_message(hologram={"depth": 3}), "text"),
    "a reply to one that is gone": _message(
        reply_to_message=_without(_message(), "from"), external_reply={"origin": {"type": "hidden_user", "date": 1}}
    ),
}
_QUERY = {
    "id": "callback-x",
    "from": PERSON,
    "chat_instance": "1",
    "data": "x",
    "message": _message(**{"from": ANONYMOUS}),
}
_QUERIES: Mapping[str, Mapping[str, Any]] = {
    "of a person": _QUERY,
    "without from": _without(_QUERY, "from"),
    "of an anonymous admin": {**_QUERY, "from": ANONYMOUS},
    "below a message that is gone": {**_QUERY, "message": {"chat": GROUP, "message_id": 7, "date": 0}},
    "below an inline message": {**_without(_QUERY, "message"), "inline_message_id": "x"},
    "of a game": {**_without(_QUERY, "data"), "game_short_name": "x"},
}
_MEMBER = {
    "chat": GROUP,
    "from": PERSON,
    "date": 1,
    "old_chat_member": {"user": PERSON, "status": "member"},
    "new_chat_member": {"user": PERSON, "status": "left"},
}
_OTHERS: Mapping[str, Any] = {
    "edited_message": _message(edit_date=1),
    "channel_post": _without(_message(chat=CHANNEL, sender_chat=CHANNEL), "from"),
    "edited_channel_post": _without(_message(chat=CHANNEL), "from"),
    "business_connection": {"id": "x", "user": PERSON, "user_chat_id": 11, "date": 1, "is_enabled": True},
    "business_message": _message(business_connection_id="x"),
    "edited_business_message": _message(business_connection_id="x"),
    "deleted_business_messages": {"business_connection_id": "x", "chat": GROUP, "message_ids": [1]},
    "message_reaction": {"chat": GROUP, "message_id": 7, "date": 1, "old_reaction": [], "new_reaction": []},
    "message_reaction_count": {"chat": CHANNEL, "message_id": 7, "date": 1, "reactions": []},
    "inline_query": {"id": "x", "from": PERSON, "query": "x", "offset": ""},
    "chosen_inline_result": {"result_id": "x", "from": PERSON, "query": "x"},
    "shipping_query": {"id": "x", "from": PERSON, "invoice_payload": "x", "shipping_address": {}},
    "pre_checkout_query": {"id": "x", "from": PERSON, "currency": "EUR", "total_amount": 1, "invoice_payload": "x"},
    "purchased_paid_media": {"from": PERSON, "paid_media_payload": "x"},
    "poll": {"id": "x", "question": "x", "options": [], "total_voter_count": 0, "is_closed": True},
    "poll_answer": {"poll_id": "x", "voter_chat": CHANNEL, "option_ids": [0]},
    "my_chat_member": _MEMBER,
    "chat_member": _MEMBER,
    "chat_join_request": {"chat": GROUP, "from": PERSON, "user_chat_id": 11, "date": 1},
    "chat_boost": {"chat": GROUP, "boost": {"boost_id": "x", "add_date": 1, "expiration_date": 2, "source": {}}},
    "removed_chat_boost": {"chat": GROUP, "boost_id": "x", "remove_date": 1, "source": {}},
    "telepathy": {"from": PERSON, "thought": "x"},
}
"""Those that are not asked for may still wait from before; the last is one that nobody knows yet."""

WRONG: tuple[Any, ...] = (None, True, 0, -1, 1.5, 10**400, "x", "", "\ud800", [], [1], {}, {"id": "x"})


def kinds() -> Iterator[tuple[str, dict[str, Any]]]:
    """(What it is, the update without its number)"""
    yield "nothing", {}
    yield from ((f"message {name}", {"message": dict(content)}) for name, content in _MESSAGES.items())
    yield from ((f"press {name}", {"callback_query": dict(content)}) for name, content in _QUERIES.items())
    yield from ((kind, {kind: content}) for kind, content in _OTHERS.items())


def broken(content: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The same with each field, however deep, missing once and wrong in every way."""
    for path in _paths(content):
        yield _changed(content, path)
        for wrong in WRONG:
            yield _changed(content, path, wrong)


def _paths(value: Any, *above: str) -> Iterator[tuple[str, ...]]:
    for name, inner in value.items() if isinstance(value, dict) else ():
        yield (*above, name)
        yield from _paths(inner, *above, name)


_GONE = object()


def _changed(content: Mapping[str, Any], path: tuple[str, ...], value: Any = _GONE) -> dict[str, Any]:
    changed = copy.deepcopy(dict(content))
    holder: Any = changed
    for name in path[:-1]:
        holder = holder[name]
    if value is _GONE:
        del holder[path[-1]]
    else:
        holder[path[-1]] = value
    return changed

"""Buttons, and what people do in Telegram as far as the gate listens: presses of them, and commands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Button:
    label: str
    data: str


@dataclass(frozen=True, slots=True)
class Press:
    callback_id: str
    user_id: int
    chat_id: int | None
    """None where Telegram does not say: then it is not our chat."""
    message_id: int
    data: str
    has_buttons: bool = True
    """True where the message has them still, or shows them only to the one who pressed."""


@dataclass(frozen=True, slots=True)
class Command:
    user_id: int
    chat_id: int
    message_id: int
    name: str
    """Without slash and address."""
    text: str
    sent_at: float


Update: TypeAlias = tuple[int, Press | Command | None]
"""Its number, and what it says to us."""

"""Faults between the gate and Telegram.

TelegramFault
├── Unreachable   no connection, no answer in time, or Telegram itself is down
├── Flooded       too many messages; Telegram says when to go on
├── Taken         another process hears this bot's updates
├── Refused       Telegram does not do it: token, chat or content
└── Uneditable    the message is gone, or too old to be changed
"""

from __future__ import annotations

from agent_gate.doors.messengers.delivery import Undelivered


class TelegramFault(Undelivered):
    """One line for the log; never holds the bot's token."""


class Unreachable(TelegramFault):
    pass


class Flooded(TelegramFault):
    def __init__(self, retry_after_s: float) -> None:
        super().__init__(f"Telegram asks to wait {retry_after_s:g} s (429)")
        self.retry_after_s: float = retry_after_s


class Taken(TelegramFault):
    pass


class Refused(TelegramFault):
    pass


class Uneditable(TelegramFault):
    pass

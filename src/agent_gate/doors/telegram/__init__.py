"""Telegram: questions as messages with buttons, answered by the people on the list, in one chat."""

from agent_gate.doors.telegram.messenger import TelegramMessenger

__all__ = ["TelegramMessenger"]

"""Telegram: questions as messages with buttons, answered by the people on the list, in one chat."""

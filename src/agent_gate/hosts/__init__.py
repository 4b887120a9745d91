"""Processes that run a gate, from their start to their end."""

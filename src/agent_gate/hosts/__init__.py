"""Processes that last: one way to start, open a gate and end (`process`, `signals`, `gate`), and what differs."""

"""Protocols that adapters fill: everything that the core asks of the outside world.

Each is imported from the module where it stands, so that who looks back loads nothing of what acts.
"""

"""agent-gate: the one gate between AI agents and everything they can touch."""

__version__ = "0.1.0"

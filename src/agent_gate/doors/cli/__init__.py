"""The command line: `agent-gate …`."""

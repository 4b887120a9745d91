"""The tool `shell.run`: one program with its words, started without a shell, in a sandbox."""

from agent_gate.services.shell.looking import look
from agent_gate.services.shell.service import ShellService

__all__ = ["ShellService", "look"]

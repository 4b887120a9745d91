"""Home Assistant: questions as notifications on people's own phones, answered there by a button."""

from agent_gate.doors.home_assistant.approvals import HomeApprovals

__all__ = ["HomeApprovals"]

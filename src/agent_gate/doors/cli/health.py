"""Rows of `doctor`."""

from __future__ import annotations

from agent_gate.model.diagnosis import FAIL, OK, WARN
from agent_gate.model.diagnosis import Diagnosis as Row

__all__ = ["FAIL", "OK", "WARN", "Row"]

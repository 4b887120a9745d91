"""Faults of a chain before it runs, and of what a policy asks for.

GateError
├── InvalidRequest    2002  the chain, its metadata or the context is malformed: nothing has run
├── InstructionError  2002  an instruction that cannot be applied: the chain ends with POLICY_ERROR
└── PolicyFailure     2003  a policy that could not do its work says why, in words that may be shown
"""

from __future__ import annotations

from agent_gate.model.errors import GateError


class InvalidRequest(GateError):
    default_code = 2002


class InstructionError(GateError):
    default_code = 2002


class PolicyFailure(GateError):
    default_code = 2003

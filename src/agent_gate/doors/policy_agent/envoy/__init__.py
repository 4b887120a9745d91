"""The kernel for Envoy: ext_proc and ext_authz over the chains of the configuration."""

from __future__ import annotations

import grpc

from agent_gate.doors.policy_agent.envoy import ext_authz, ext_proc
from agent_gate.doors.policy_agent.envoy.kernel import Kernel
from agent_gate.doors.policy_agent.methods import handlers

__all__ = ["Kernel", "envoy_handlers"]


def envoy_handlers(kernel: Kernel) -> tuple[grpc.GenericRpcHandler, ...]:
    """Under the names by which Envoy calls them."""
    processor, authorization = ext_proc.ExternalProcessor(kernel), ext_authz.Authorization(kernel)
    return (
        handlers(ext_proc.SERVICE, {"Process": processor.process}, ext_proc.NAME),
        handlers(ext_authz.SERVICE, {"Check": authorization.check}, ext_authz.NAME),
    )

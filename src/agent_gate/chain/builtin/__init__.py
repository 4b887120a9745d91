"""The policies that come with the gate."""

from __future__ import annotations

from typing import Any

from agent_gate.chain.builtin.api_key import ApiKey
from agent_gate.chain.builtin.body_size import BodySize
from agent_gate.chain.builtin.cors import Cors
from agent_gate.chain.builtin.gate import GatePolicy
from agent_gate.chain.builtin.header_changes import RemoveHeaders, SetHeaders
from agent_gate.chain.builtin.ip_allow import IpAllow
from agent_gate.chain.builtin.jwks import Fetch, fetched
from agent_gate.chain.builtin.jwt import Jwt
from agent_gate.chain.builtin.rate_limit import RateLimit
from agent_gate.chain.builtin.secret_scrub import SecretScrub
from agent_gate.chain.policy import Policy
from agent_gate.ports.judging import RequestJudge
from agent_gate.ports.surroundings import Clock


def builtin_policies(clock: Clock, judge: RequestJudge | None = None, fetch: Fetch = fetched) -> list[Policy[Any]]:
    """All of them; `gate` only where there is a gate to ask, so that a chain that names it without one is denied."""
    policies: list[Policy[Any]] = [
        ApiKey(),
        BodySize(),
        Cors(),
        IpAllow(),
        Jwt(clock, fetch),
        RateLimit(clock),
        RemoveHeaders(),
        SecretScrub(),
        SetHeaders(),
    ]
    return policies if judge is None else [*policies, GatePolicy(judge)]

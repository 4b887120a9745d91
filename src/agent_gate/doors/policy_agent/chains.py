"""Chains that requests bring along, kept ready for the next request with the same one."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TypeAlias

from agent_gate.chain.context import Phase
from agent_gate.chain.prepared import Chain, prepare
from agent_gate.chain.registry import Registry
from agent_gate.doors.policy_agent.proto import policy_agent_pb2 as pb
from agent_gate.doors.policy_agent.translate import ref_of
from agent_gate.model.bounds import AGENT_CHAIN_KEY_BYTES_MAX, AGENT_CHAINS_KEPT_MAX

_Key: TypeAlias = tuple[Phase, tuple[bytes, ...]]


class ReadyChains:
    """Proxies send the same few chains again and again; looking policies up and checking metadata is done once."""

    def __init__(self, registry: Registry, *, allow_empty: bool) -> None:
        self._registry, self._allow_empty = registry, allow_empty
        self._kept: OrderedDict[_Key, Chain] = OrderedDict()

    def find(self, refs: Sequence[pb.PolicyRef], phase: Phase) -> Chain:
        """InvalidRequest where the chain cannot be used so."""
        key = (phase, tuple([ref.SerializeToString() for ref in refs]))
        chain = self._kept.get(key)
        if chain is not None:
            self._kept.move_to_end(key)
            return chain
        chain = prepare([ref_of(ref) for ref in refs], phase, self._registry, allow_empty=self._allow_empty)
        if self._can_be_kept(key, chain):
            self._kept[key] = chain
            if len(self._kept) > AGENT_CHAINS_KEPT_MAX:
                self._kept.popitem(last=False)
        return chain

    @staticmethod
    def _can_be_kept(key: _Key, chain: Chain) -> bool:
        """A policy that is unknown now may be registered before the next request."""
        return sum(map(len, key[1])) <= AGENT_CHAIN_KEY_BYTES_MAX and all(step.policy for step in chain.steps)

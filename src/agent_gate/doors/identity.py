"""Identities at the doors: tokens of agents and approvers, users of messengers."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from hmac import compare_digest

from agent_gate.config import Config
from agent_gate.model.approval import Approver
from agent_gate.model.call import Agent


class Identities:
    """Everybody that the configuration knows; an agent's token never opens an approver's door, nor the other way."""

    def __init__(self, config: Config) -> None:
        limits = config.rate_limit
        self.agents = {
            agent.id: Agent(
                agent.id,
                agent.roles,
                agent.projects,
                agent.mode,
                agent.owner,
                limits.max_requests_per_minute,
                limits.max_pending_approvals,
            )
            for agent in config.agents
        }
        self.approvers = {approver.id: Approver(approver.id, approver.roles) for approver in config.approvers}
        self._agent_tokens = [(_digest(agent.token), agent.id) for agent in config.agents]
        self._approver_tokens = [(_digest(one.token), one.id) for one in config.approvers if one.token]
        self._telegram_users = {
            one.telegram_user_id: one.id for one in config.approvers if one.telegram_user_id is not None
        }
        self._telegram_allowed = frozenset(
            user for one in config.every_messenger if one.telegram for user in one.telegram.allowed_users
        )

    def agent(self, token: str) -> Agent | None:
        name = _holder(token, self._agent_tokens)
        return None if name is None else self.agents[name]

    def approver(self, token: str) -> Approver | None:
        name = _holder(token, self._approver_tokens)
        return None if name is None else self.approvers[name]

    def telegram_user(self, user_id: int) -> Approver | None:
        """Only somebody on the list; one whom the configuration does not know otherwise is an operator."""
        if user_id not in self._telegram_allowed:
            return None
        name = self._telegram_users.get(user_id)
        return Approver(f"telegram:{user_id}") if name is None else self.approvers[name]


def _holder(token: str, known: Iterable[tuple[bytes, str]]) -> str | None:
    """Every known token is compared, so that the time taken says nothing of which one was near."""
    digest, found = _digest(token), None
    for candidate, name in known:
        if compare_digest(digest, candidate):
            found = name
    return found


def _digest(token: str) -> bytes:
    return sha256(token.encode("utf-8", "surrogatepass")).digest()

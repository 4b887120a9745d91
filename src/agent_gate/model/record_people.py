"""Entries of what people decide beside a single answer: standing grants, and answers that did not count."""

from __future__ import annotations

from agent_gate.model.codec import canonical
from agent_gate.model.entry import Draft, Kind
from agent_gate.model.errors import Problem
from agent_gate.model.grant import Grant
from agent_gate.model.moment import iso


def granted(grant: Grant, salt: str) -> Draft:
    """That a person lets the same call pass again, for a time."""
    return _draft(grant, "given", grant.given_by, grant.created_at, salt)


def revoked(grant: Grant, by: str, at: float, salt: str) -> Draft:
    return _draft(grant, "revoked", by, at, salt)


def used(grant: Grant, call_id: str, at: float, salt: str) -> Draft:
    """That the grant let a call pass."""
    body = {"call_id": call_id, "grant_id": grant.grant_id, "salt": salt}
    return Draft(Kind.GRANT, iso(at), canonical(body), agent_id=grant.agent_id, tool=grant.tool, status="used")


def _draft(grant: Grant, status: str, by: str, at: float, salt: str) -> Draft:
    body = {**grant.to_json(), "by": by, "key": grant.key, "roles": list(grant.roles), "salt": salt}
    return Draft(
        Kind.GRANT, iso(at), canonical(body), agent_id=grant.agent_id, tool=grant.tool,
        signature="\n".join(grant.signatures), status=status,
    )  # fmt: skip


def refused_answer(call_id: str, verb: str, by: str, why: Problem, at: float, salt: str) -> Draft:
    """That somebody answered who could not, or too late, or again."""
    refused = {"answer": verb, "by": by, "call_id": call_id, "error": why.to_json()}
    return Draft(Kind.DOOR, iso(at), canonical({"refused_answer": refused, "salt": salt}))

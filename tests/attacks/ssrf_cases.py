"""URLs through a whole gate, into a web that exists only in the case."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

from agent_gate.model.errors import GateError
from agent_gate.model.outcome import Status
from agent_gate.policy.guards.urls import parse_url
from tests.attacks.cases import Case
from tests.attacks.runner import CheckFailed
from tests.web import Web, a_gate_to

CHECKS = frozenset({"never_connect", "never_resolve", "max_lookups", "max_connections", "must_not_contain"})

_FIELDS = {
    "allow_domains": "allow_domains",
    "allow_schemes": "allow_schemes",
    "allow_ports": "allow_ports",
    "block_private": "deny_private_ips",
    "max_redirects": "max_redirects",
    "max_response_bytes": "max_response_bytes",
    "max_bytes": "max_response_bytes",
    "timeout_s": "timeout_seconds",
    "timeout_seconds": "timeout_seconds",
}


def run(case: Case, root: Path) -> str:
    web, environment = arranged(case.setup)
    with patch.dict(os.environ, environment):
        status, shown = asyncio.run(_call(case, root, web))
    _check(case, web, shown)
    return {Status.SUCCESS: "allow", Status.DENIED: "deny"}.get(status, "error")


async def _call(case: Case, root: Path, web: Web) -> tuple[Status, str]:
    section = {_FIELDS[name]: value for name, value in case.policy.items() if name in _FIELDS}
    policy: dict[str, Any] = {"version": 1, "tools": {"http.get": section}}
    if case.policy.get("default") == "deny":
        policy["boundary"] = "deny_by_default"
    async with a_gate_to(web, policy, root / "gate.db") as gate:
        outcome = await gate.call("http.get", dict(case.args))
    return outcome.status, str(outcome.to_json())


def arranged(setup: Iterable[Mapping[str, Any]]) -> tuple[Web, dict[str, str]]:
    """The web of a case, and the environment in which it plays."""
    web, environment = Web(), {}
    for step in setup:
        for name, answers in step.get("dns", {}).items():
            web.names[_bare(name)] = [*answers]
        web.pages.update({_spelt(url): _page(page) for url, page in step.get("http", {}).items()})
        web.hanging.update(_hosts(step.get("dns_hang")))
        web.failing += _hosts(step.get("connect_fail_first"))
        environment.update(step.get("env", {}))
    return web, environment


def _page(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """A page may give its body's size alone."""
    size = next((fields[name] for name in ("body_bytes", "bytes", "size") if name in fields), None)
    return fields if size is None else {**fields, "body": bytes(int(size))}


def _spelt(url: str) -> str:
    """As it will be asked for."""
    with suppress(GateError):
        return parse_url(url).text
    return url


def _bare(name: str) -> str:
    return name.lower().removesuffix(".")


def _hosts(value: Any) -> list[str]:
    """`true` means any."""
    if isinstance(value, list):
        return [_bare(item) for item in value]
    return [_bare(value)] if isinstance(value, str) else ["*"] if value else []


def _check(case: Case, web: Web, shown: str) -> None:
    reached = set(web.dialled) & set(case.check.get("never_connect", ()))
    if reached:
        raise CheckFailed(f"connected to {', '.join(sorted(reached))}")
    told = set(web.looked_up) & set(case.check.get("never_resolve", ()))
    if told:
        raise CheckFailed(f"looked up {', '.join(sorted(told))}")
    for count, check in ((len(web.looked_up), "max_lookups"), (len(web.dialled), "max_connections")):
        if count > case.check.get(check, count):
            raise CheckFailed(f"{count} of {check} {case.check[check]}")
    for text in case.check.get("must_not_contain", ()):
        if text in shown:
            raise CheckFailed(f"the outcome holds {text!r}")

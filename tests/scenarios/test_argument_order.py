"""Rules from before functions were signed in the order of their parameters: none that refuses turns into a yes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_gate import tool
from agent_gate.model.outcome import Status
from tests.gates import ALLOW_ALL, a_gate, pending


def database(acts: list[str]) -> Any:
    @tool("db.run", effect="write", risk="low", cost=0)
    async def run(table: str, action: str) -> str:
        acts.append(f"{action} {table}")
        return "done"

    return run


@pytest.mark.parametrize(
    "pattern", ["db.run(drop, *)", "db.run(*, users)", "db.run(drop*)", "*(drop, *)", "*.run(d*, u*)"]
)
async def test_a_rule_that_denies_by_the_order_of_names_goes_on_denying(tmp_path: Path, pattern: str) -> None:
    acts: list[str] = []
    policy = {"rules": [{"pattern": pattern, "action": "deny"}, *ALLOW_ALL["rules"]]}
    async with a_gate(tmp_path, policy, database(acts)) as gate:
        refused = await gate.call("db.run", table="users", action="drop")
        other = await gate.call("db.run", table="logs", action="read")
    assert refused.signatures == ("db.run(users, drop)",)
    assert (refused.status, other.status) == (Status.DENIED, Status.SUCCESS)
    assert acts == ["read logs"]


async def test_a_rule_that_asks_by_the_order_of_names_goes_on_asking(tmp_path: Path) -> None:
    acts: list[str] = []
    policy = {
        "rules": [{"pattern": "db.run(drop, *)", "action": "ask"}],
        "defaults": [{"pattern": "*", "action": "allow"}],
    }
    async with a_gate(tmp_path, policy, database(acts)) as gate:
        question = await pending(gate, "db.run", {"table": "users", "action": "drop"})
        assert question.signatures == ("db.run(users, drop)",)
    assert acts == []


async def test_a_rule_that_allows_by_the_order_of_names_allows_nothing(tmp_path: Path) -> None:
    acts: list[str] = []
    policy = {"boundary": "deny_by_default", "rules": [{"pattern": "db.run(read, *)", "action": "allow"}]}
    async with a_gate(tmp_path, policy, database(acts)) as gate:
        assert (await gate.call("db.run", table="users", action="read")).status is Status.DENIED
        assert (await gate.call("db.run", table="read", action="drop")).status is Status.SUCCESS
    assert acts == ["drop read"]

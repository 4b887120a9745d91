"""A policy file that changes while the gate is open."""

from __future__ import annotations

import gc
import json
import logging
from dataclasses import replace
from pathlib import Path
from weakref import ref

import pytest

from agent_gate import ConfigError, Gate
from agent_gate.gate.policy_watch import PolicyWatch
from agent_gate.model.entry import GATE_PROJECT
from agent_gate.model.outcome import Status
from agent_gate.model.tool import Json
from agent_gate.policy.judge import Judge
from tests.gates import (
    ASK_ALL,
    QUICK_GATE,
    a_gate,
    approve,
    code_of,
    entries,
    outcome_of,
    pending,
    reader,
    sender,
    until,
)


def write(path: Path, *rules: Json, **fields: Json) -> Path:
    path.write_text(json.dumps({"rules": list(rules), **fields}))
    return path


def rule(action: str, pattern: str = "*") -> Json:
    return {"pattern": pattern, "action": action}


async def reload(gate: Gate, path: Path) -> bool:
    """What the watch does once it sees a change."""
    return await PolicyWatch(path, Judge).reload(gate)


def versions(gate: Gate) -> list[str]:
    return [row["body"]["policy_hash"] for row in entries(gate, "policy")]


async def test_a_changed_file_takes_effect_by_itself_and_each_version_is_an_entry(tmp_path: Path) -> None:
    path = write(tmp_path / "policy.yaml", rule("allow"))
    async with a_gate(tmp_path, path, reader([]), gate_bounds=replace(QUICK_GATE, policy_poll_s=0.005)) as gate:
        assert (await gate.call("note.read")).ok
        first = gate.judge.policy_hash
        write(path, rule("deny"))
        await until(lambda: gate.judge.policy_hash != first)
        denied = await gate.call("note.read")
        assert code_of(denied) == 1001
        assert versions(gate) == [first, gate.judge.policy_hash]
        for hash in versions(gate):
            assert await gate.ledger.blob(hash) is not None
        assert {row["project"] for row in entries(gate, "policy")} == {GATE_PROJECT}
        [settled] = [row for row in entries(gate, "settled") if row["call_id"] == denied.call_id]
        assert settled["body"]["facts"]["policy"] == gate.judge.policy_hash[:16]


@pytest.mark.parametrize(
    "content",
    ["", "rules: [{pattern: '*'}]", "rules: [", "colour: blue", "rules: [{pattern: '*', action: allow, when: 'x +'}]"],
    ids=["empty", "no action", "not YAML", "unknown field", "bad condition"],
)
async def test_an_invalid_file_keeps_the_old_policy_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: str
) -> None:
    path = write(tmp_path / "policy.yaml", rule("deny"))
    async with a_gate(tmp_path, path, reader([])) as gate:
        before = gate.judge
        path.write_text(content)
        with caplog.at_level(logging.WARNING):
            assert not await reload(gate, path)
        assert gate.judge is before
        assert "the policy in force stays" in caplog.text
        assert "\n" not in caplog.records[0].getMessage()
        assert (code_of(await gate.call("note.read")), len(versions(gate))) == (1001, 1)


async def test_a_file_that_vanished_keeps_the_old_policy(tmp_path: Path) -> None:
    path = write(tmp_path / "policy.yaml", rule("deny"))
    async with a_gate(tmp_path, path, reader([])) as gate:
        path.unlink()
        assert not await reload(gate, path)
        assert code_of(await gate.call("note.read")) == 1001


async def test_a_gate_does_not_open_without_a_valid_policy(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        async with a_gate(tmp_path, tmp_path / "missing.yaml"):
            pass
    assert not (tmp_path / "gate.db").exists()


async def test_the_same_policy_is_not_written_down_twice_and_an_old_one_that_returns_is(tmp_path: Path) -> None:
    path = write(tmp_path / "policy.yaml", rule("allow"))
    async with a_gate(tmp_path, path) as gate:
        first = gate.judge.policy_hash
    async with a_gate(tmp_path, path) as gate:
        assert await reload(gate, path)
        assert versions(gate) == [first]
        write(path, rule("deny"))
        await reload(gate, path)
        write(path, rule("allow"))
        await reload(gate, path)
        assert [hash == first for hash in versions(gate)] == [True, False, True]


async def test_a_call_that_waits_for_a_person_is_judged_again_by_the_policy_of_the_moment(tmp_path: Path) -> None:
    acts: list[str] = []
    path = write(tmp_path / "policy.yaml", rule("ask"))
    async with a_gate(tmp_path, path, sender(acts)) as gate:
        first = await pending(gate, "mail.send", {"text": "a"})
        second = await pending(gate, "mail.send", {"text": "b"})
        write(path, rule("deny", "mail.send(a)"), rule("allow"))
        assert await reload(gate, path)
        await approve(gate, first)
        await approve(gate, second)
        assert code_of(await outcome_of(gate, first)) == 1001
        assert (await outcome_of(gate, second)).decision is not None
        assert acts == ["b"]
        performing = [row for row in entries(gate, "performing") if row["call_id"] == second.call_id]
        assert [(row["body"]["decision"], row["body"]["facts"]["policy"]) for row in performing] == [
            ("allow", gate.judge.policy_hash[:16])
        ]


async def test_a_call_that_waits_keeps_no_policy_that_has_been_replaced(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ASK_ALL, sender([])) as gate:
        old: list[ref[Judge]] = []
        for number in range(3):
            outcome = await gate.call("mail.send", {"text": str(number)}, wait=False)
            assert outcome.status is Status.PENDING_APPROVAL
            old.append(ref(gate.judge))
            gate.judge = Judge(gate.judge.policy, gate.judge.surroundings)
        gc.collect()
        assert [judge() for judge in old[1:]] == [None, None]

"""Trying a policy on the past: calls that look alike are judged alike only where nothing else decides."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent_gate.config import load_policy
from agent_gate.history.policy_try import Trial, try_policy
from agent_gate.ledger.sqlite.reader import open_reader
from agent_gate.policy.judge import Judge
from agent_gate.resolve.surroundings import look_around
from tests.gates import ALLOW_ALL, HandClock, a_gate, agent, counter, reader

ALLOWED = [{"pattern": "*", "action": "allow"}]


def tried(directory: Path, policy: Mapping[str, Any]) -> Trial:
    loaded = load_policy(policy)
    with closing(open_reader(directory / "gate.db")) as connection:
        return try_policy(connection, Judge(loaded, look_around(loaded, str(directory))))


def flips(trial: Trial) -> list[tuple[str, str]]:
    return [(flip.was, flip.would_be) for flip in trial.flips]


async def test_each_of_many_calls_that_are_alike_is_counted_and_listed(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOW_ALL, reader([])) as gate:
        made = [(await gate.call("note.read", text="a")).call_id for _ in range(3)]
        await gate.call("note.read", text="b")
    trial = tried(tmp_path, {"rules": [{"pattern": "note.read(a)", "action": "deny"}, *ALLOWED]})
    assert (trial.judged, trial.newly_denied, trial.newly_allowed) == (4, 3, 0)
    assert [(flip.call_id, flip.signatures) for flip in trial.flips] == [(id, ("note.read(a)",)) for id in made]
    assert {flip.reasons[0]["rule"] for flip in trial.flips} == {"note.read(a)"}


@pytest.mark.parametrize(
    "policy",
    [
        {"rules": ALLOWED, "windows": {"allowed": [{"hours": ["08:00", "18:00"]}]}},
        {"rules": [{"pattern": "note.*", "action": "deny", "when": "hour >= 18"}, *ALLOWED]},
        {"rules": ALLOWED, "declare": {"note.*": {"preconditions": ["hour < 18"]}}},
    ],
    ids=["windows", "condition", "precondition"],
)
async def test_calls_that_are_alike_are_judged_by_their_own_moment(tmp_path: Path, policy: Mapping[str, Any]) -> None:
    clock = HandClock()
    async with a_gate(tmp_path, ALLOW_ALL, reader([]), clock=clock) as gate:
        await gate.call("note.read", text="a")
        clock.advance(10 * 3_600)
        await gate.call("note.read", text="a")
        clock.advance(14 * 3_600)
        await gate.call("note.read", text="a")
    trial = tried(tmp_path, policy)
    assert (trial.judged, flips(trial)) == (3, [("allow", "deny")])


@pytest.mark.parametrize(
    "limits",
    [{"rate": {"per_minute": 1}}, {"rate": {"per_hour": 1}}, {"budget": {"daily": 1}}],
    ids=["minute", "hour", "budget"],
)
async def test_calls_that_are_alike_are_judged_by_what_was_used(tmp_path: Path, limits: Mapping[str, Any]) -> None:
    wide = {"rate": {"per_minute": 100, "per_hour": 1000}, "budget": {"daily": 1000}}
    async with a_gate(tmp_path, {**ALLOW_ALL, "limits": wide}, reader([], cost=1)) as gate:
        await gate.call("note.read", text="a")
        await gate.call("note.read", text="a")
    assert flips(tried(tmp_path, {**ALLOW_ALL, "limits": limits})) == [("allow", "deny")]


async def test_calls_that_are_alike_are_judged_by_the_state_they_met(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOW_ALL, counter()) as gate:
        for _ in range(3):
            await gate.call("counter.add", n=1)
    trial = tried(
        tmp_path, {"rules": [{"pattern": "counter.*", "action": "deny", "when": "get(state, 'n', 0) == 1"}, *ALLOWED]}
    )
    assert (trial.judged, flips(trial)) == (3, [("allow", "deny")])


async def test_calls_that_are_alike_are_judged_by_who_made_them(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOW_ALL, reader([])) as gate:
        await gate.call("note.read", text="a", agent=agent("first"))
        await gate.call("note.read", text="a", agent=agent("second", roles=("admin",)))
    policy = {**ALLOW_ALL, "declare": {"note.*": {"required_roles": ["admin"]}}}
    assert [(flip.agent_id, flip.would_be) for flip in tried(tmp_path, policy).flips] == [("first", "deny")]


async def test_calls_that_are_alike_are_judged_by_what_they_found(tmp_path: Path) -> None:
    file, guards = tmp_path / "a.txt", {"allow_paths": ["./**"]}
    async with a_gate(tmp_path, {"tools": {"fs.read": guards}}, working_dir=tmp_path) as gate:
        for size in (10, 1_000, 10):
            file.write_text("x" * size)
            assert (await gate.call("fs.read", path="a.txt")).ok
    trial = tried(tmp_path, {"tools": {"fs.read": {**guards, "max_size_bytes": 100}}})
    assert (trial.judged, flips(trial)) == (3, [("allow", "deny")])

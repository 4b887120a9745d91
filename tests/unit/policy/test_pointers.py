"""Every spelling of a place in the state is one name to the rules."""

from __future__ import annotations

import pytest

from agent_gate.config import load_policy
from agent_gate.model.bounds import JSON_DEPTH_MAX
from agent_gate.model.errors import ToolError
from agent_gate.model.verdict import Decision
from agent_gate.policy.judge import Judge
from agent_gate.policy.pointers import pointer_of
from agent_gate.tools.check import check_call

LOCKS_ARE_DENIED = {
    "rules": [{"pattern": "state.set(/locks/*", "action": "deny"}, {"pattern": "state.*", "action": "allow"}]
}


@pytest.mark.parametrize(
    ("path", "pointer"),
    [
        ("", ""),
        ("/a/b", "/a/b"),
        ("a.b", "/a/b"),
        ("a", "/a"),
        ("a/b", "/a~1b"),
        ("a~b", "/a~0b"),
        ("/", "/"),
        ("a..b", "/a//b"),
    ],
)
def test_a_path_becomes_one_json_pointer(path: str, pointer: str) -> None:
    assert pointer_of(path) == pointer


def test_a_pointer_with_a_loose_tilde_is_refused() -> None:
    with pytest.raises(ToolError) as refused:
        pointer_of("/a~2b")
    assert refused.value.code == 2002


@pytest.mark.parametrize("path", ["/locks/front", "locks.front"])
def test_a_rule_about_a_place_holds_for_every_spelling_of_it(path: str) -> None:
    checked = check_call(Judge(load_policy(LOCKS_ARE_DENIED)), "state.set", {"path": path, "value": 1}, at=0.0)
    assert (checked.outcome.decision, checked.outcome.signatures) == (Decision.DENY, ("state.set(/locks/front, 1)",))


@pytest.mark.parametrize("step", ["/a", ".a"])
def test_a_path_with_more_steps_than_a_state_can_have_is_refused_before_it_is_read(step: str) -> None:
    start = "" if step == "/a" else "a"
    pointer_of(start + step * JSON_DEPTH_MAX)
    with pytest.raises(ToolError, match="at most 64 steps"):
        pointer_of(start + step * (JSON_DEPTH_MAX + 1))

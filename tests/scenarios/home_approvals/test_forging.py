"""An agent at home: it can fire events and read states, and gets neither an answer in nor a button out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest

from agent_gate.simulated_home import Running
from agent_gate.simulated_home.states import Context
from tests.gates import code_of, sender
from tests.phones import PIXEL, AtHome, action_of, at_home

POLICY = {"rules": [{"pattern": "ha_*", "action": "allow"}, {"pattern": "mail.*", "action": "ask"}]}


async def test_an_event_that_an_agent_fires_is_no_answer_even_with_the_right_button(
    tmp_path: Path, running: Running, acts: list[str]
) -> None:
    async with at_home(tmp_path, running, sender(acts), policy=POLICY) as people:
        call_id, shown = await people.ask()
        event = {"action": action_of(shown, "Allow")}
        fired = await people.call(
            {"event_type": "mobile_app_notification_action", "event_data": event}, tool="ha_fire_event"
        )
        assert code_of(fired) == 2002
        assert await people.is_open(call_id)
        assert acts == []


async def test_events_in_the_gates_own_name_without_a_seal_are_turned_away(people: AtHome, acts: list[str]) -> None:
    """What a script of the home might fire on an agent's behalf."""
    call_id, _ = await people.ask()
    for action in (f"AG_ALLOW_{call_id}_{'0' * 32}", f"AG_ALLOW_{call_id}_", "AG_", f"AG_GRANT_{call_id}_{'0' * 32}"):
        own = Context("01" * 13, people.home.owner.id)
        people.home.bus.fire("mobile_app_notification_action", {"action": action}, own, "REMOTE")
    await people.turned_away(4)
    assert await people.is_open(call_id)
    assert acts == []


@pytest.mark.parametrize(
    "data", [None, 1, [], {}, {"action": None}, {"action": ["AG_"]}, {"action": "x" * 100_000}], ids=repr
)
async def test_events_of_any_shape_are_passed_over(people: AtHome, data: Any) -> None:
    people.home.bus.fire("mobile_app_notification_action", data, Context("01" * 13, None), "REMOTE")
    call_id, shown = await people.ask()
    people.press(shown, "Deny")
    await people.cleared(call_id)


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        ("ha_get_states", {}),
        ("ha_list_entities", {}),
        ("ha_list_services", {}),
        ("ha_render_template", {"template": "{{ states | list }}"}),
        ("ha_get_history", {"entity_ids": ["light.kitchen_lights"]}),
    ],
)
async def test_no_tool_reads_what_phones_were_sent(
    tmp_path: Path, running: Running, tool: str, args: Mapping[str, Any]
) -> None:
    async with at_home(tmp_path, running, sender([]), policy=POLICY) as people:
        call_id, shown = await people.ask("tell nobody")
        before = len(people.home.states)
        answer = await people.call(args, tool=tool)
        told = orjson.dumps(answer.to_json()).decode()
        secrets = [action_of(shown, title).rpartition("_")[2] for title in ("Allow", "Deny")]
        assert not any(one in told for one in (call_id, str(shown.tag), "tell nobody", *secrets))
        assert len(people.home.states) == before


async def test_a_tag_cannot_be_told_from_what_an_agent_knows(people: AtHome) -> None:
    """Who knew it could put another text under the question, or take it off the phone."""
    call_id, shown = await people.ask()
    assert shown.tag is not None
    assert len(shown.tag) == 32
    assert call_id not in shown.tag
    assert PIXEL not in shown.tag

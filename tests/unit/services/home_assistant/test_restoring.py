"""Bringing back: which services lead to an earlier state, and when two states are the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from agent_gate import Agent
from agent_gate.model.call import BoundCall, CallRequest
from agent_gate.model.tool import Json
from agent_gate.services.home_assistant.client import Called, HomeClient
from agent_gate.services.home_assistant.commands import SendCommand
from agent_gate.services.home_assistant.faults import Refused
from agent_gate.services.home_assistant.restorable import Moment
from agent_gate.services.home_assistant.restoring import Findings, Restoring, sends_for
from tests.gates import soon
from tests.scripted_home import No, ScriptedHome, a_client, state
from tests.unit.services.home_assistant.homes import SERVICES, a_home, entity


def moment(entity_id: str, state: str, **attributes: Any) -> Moment:
    return Moment.made_of(entity_id, state, attributes)


def sent(findings: Findings, *services: str, now: tuple[Any, ...]) -> list[tuple[str, Any, Any]]:
    home = a_home(*now, services=" ".join(services) or SERVICES)
    return [(f"{send.call.domain}.{send.call.service}", send.target, send.data) for send in sends_for(home, findings)]


def test_one_scene_leads_back_to_all_that_scenes_can_set() -> None:
    findings = Findings(
        {
            "lock.a": moment("lock.a", "locked"),
            "light.b": moment("light.b", "on", brightness=9, color_mode="brightness"),
        }
    )
    now = entity("lock.a", "unlocked"), entity("light.b", "off")
    scene = {"light.b": {"state": "on", "brightness": 9, "color_mode": "brightness"}, "lock.a": {"state": "locked"}}
    assert sent(findings, now=now) == [("scene.apply", None, {"entities": scene})]
    assert findings.not_restored == {}


def test_what_scenes_pass_over_is_led_back_by_the_inverse_service() -> None:
    findings = Findings({name: moment(name, "on") for name in ("siren.a", "siren.b", "light.c")})
    now = entity("siren.a"), entity("siren.b"), entity("light.c")
    assert sent(findings, now=now) == [
        ("scene.apply", None, {"entities": {"light.c": {"state": "on"}}}),
        ("siren.turn_on", {"entity_id": ["siren.a", "siren.b"]}, {}),
    ]


def test_without_scenes_the_inverse_service_has_to_do() -> None:
    findings = Findings({"lock.a": moment("lock.a", "locked"), "climate.b": moment("climate.b", "heat")})
    now = entity("lock.a", "unlocked"), entity("climate.b", "off")
    assert sent(findings, "lock.lock", "lock.unlock", now=now) == [("lock.lock", {"entity_id": ["lock.a"]}, {})]
    assert findings.to_restore.keys() == {"lock.a"}
    assert findings.not_restored == {"climate.b": "no service of this home leads back to `heat`"}


def test_a_player_is_told_only_what_has_changed_so_that_its_music_goes_on() -> None:
    was: dict[str, Any] = {"volume_level": 0.4, "media_content_id": "a", "media_content_type": "music", "source": "tv"}
    before = moment("media_player.a", "playing", **was)
    louder = moment("media_player.a", "playing", **{**was, "volume_level": 0.9})
    other = moment("media_player.a", "playing", **{**was, "media_content_id": "b"})
    assert before.wanted_from("media_player.a", louder) == {"state": "playing", "volume_level": 0.4}
    assert before.wanted_from("media_player.a", other) == {
        "state": "playing",
        "media_content_id": "a",
        "media_content_type": "music",
    }


def test_a_cover_is_told_all_because_one_without_a_position_would_open() -> None:
    before = moment("cover.a", "open", current_position=70, current_tilt_position=50)
    tilted = moment("cover.a", "open", current_position=70, current_tilt_position=80)
    assert before.wanted_from("cover.a", tilted) == {
        "state": "open",
        "current_position": 70,
        "current_tilt_position": 50,
    }


def test_only_what_can_be_brought_back_makes_two_states_differ() -> None:
    assert moment("climate.a", "heat", current_temperature=20, temperature=21) == moment(
        "climate.a", "heat", current_temperature=23, temperature=21, fan_mode=None
    )
    assert moment("climate.a", "heat", temperature=21) != moment("climate.a", "heat", temperature=22)
    assert moment("fan.a", "off") == moment("fan.a", "off", percentage=0)


@pytest.mark.parametrize(
    ("left", "now", "same"),
    [
        ("opening", "open", True),
        ("opening", "opening", True),
        ("closing", "closed", True),
        ("closing", "open", False),
        ("locking", "locked", True),
        ("locking", "unlocked", False),
        ("locking", "jammed", False),
        ("arming", "armed_away", True),
        ("open", "opening", False),
        ("on", "off", False),
    ],
)
def test_what_was_on_its_way_when_a_call_ended_may_have_arrived(left: str, now: str, same: bool) -> None:
    before, after = moment("cover.a", left, current_position=10), moment("cover.a", now, current_position=90)
    assert before.has_come_to(after) is same


def test_a_lamp_that_shows_nearly_the_same_colour_is_back() -> None:
    before = moment("light.a", "on", brightness=9, hs_color=[10, 20], color_mode="hs")
    assert moment("light.a", "on", brightness=9, hs_color=[10.1, 20], color_mode="hs").is_like(before)
    assert not moment("light.a", "on", brightness=8, hs_color=[10, 20], color_mode="hs").is_like(before)
    assert not moment("light.a", "off").is_like(before)


async def restored(home: ScriptedHome, **before: Moment) -> Json:
    findings = Findings({name.replace("__", "."): moment for name, moment in before.items()})
    names = ("scene", "apply"), ("siren", "turn_on")
    home.answers["get_services"] = lambda _: {domain: {service: {"description": "d"}} for domain, service in names}
    async with home.serving(), a_client(home.url) as client:
        sends = sends_for(client.home, findings)
        call = BoundCall("c", CallRequest(Agent("bot"), "gate.revert", {}), {}, {}, (), "")
        return await soon(Restoring(client.home, unrecorded(client), sends, findings, lambda: sends).act(call))


def unrecorded(client: HomeClient) -> SendCommand:
    async def send(
        call_id: str,
        domain: str,
        service: str,
        *,
        target: Mapping[str, Json] | None,
        data: Mapping[str, Json],
        timeout_s: float,
        only_live: bool = False,
        told: Mapping[str, Json] | None = None,
        must_be_recorded: bool = True,
    ) -> Called:
        assert (call_id, told, must_be_recorded) == ("c", None, True)
        return await client.call_service(
            domain, service, target=target, data=data, wants_response=False, timeout_s=timeout_s, only_live=only_live
        )

    return send


def refusing(*domains: str) -> Any:
    def answer(message: dict[str, Any]) -> Any:
        if message["domain"] in domains:
            raise No("home_assistant_error", f"{message['domain']} does not work")
        return {"context": {"id": "c1"}}

    return answer


async def test_what_was_sent_is_told_although_it_is_slow_and_another_part_is_refused() -> None:
    home = ScriptedHome()
    home.states = [state("cover.a", "open"), state("siren.b", "off")]
    home.answers["call_service"] = refusing("siren")
    told = await restored(home, cover__a=moment("cover.a", "closed"), siren__b=moment("siren.b", "on"))
    assert told == {
        "restored": {},
        "not_yet": {"cover.a": "was `closed`, is `open`"},
        "not_restored": [{"what": "siren.b", "reason": "siren does not work"}],
        "context_ids": ["c1"],
    }


async def test_a_lamp_of_nearly_the_right_colour_is_not_back_where_the_home_refused() -> None:
    home = ScriptedHome()
    home.states = [state("light.a", "on", brightness=9, hs_color=[10, 20], color_mode="hs")]
    home.answers["call_service"] = refusing("scene")
    with pytest.raises(Refused, match="scene does not work"):
        await restored(home, light__a=moment("light.a", "on", brightness=9, hs_color=[90, 20], color_mode="hs"))

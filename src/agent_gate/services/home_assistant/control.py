"""Tools that act, `ha_call_service`, `ha_activate_scene` and `ha_fire_event`: what is judged is what is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from agent_gate.model.call import BoundCall, CallRequest
from agent_gate.model.errors import ToolError
from agent_gate.model.tool import Json
from agent_gate.policy.encoding import ArgumentError
from agent_gate.policy.judge import Judge
from agent_gate.ports.surroundings import Clock
from agent_gate.ports.tools import Binding, Moved, RegisteredTool
from agent_gate.services.home_assistant.client import Called, HomeClient
from agent_gate.services.home_assistant.commands import SendCommand
from agent_gate.services.home_assistant.faults import Refused
from agent_gate.services.home_assistant.firing import event_binding, refuse_undo
from agent_gate.services.home_assistant.home import Entity, Home
from agent_gate.services.home_assistant.probing import binding_of_unknown
from agent_gate.services.home_assistant.targets import Reach, reach_of
from agent_gate.services.home_assistant.undo import Undo, kept_states
from agent_gate.toolkit import make_registered_tool
from agent_gate.tools.home_assistant.declarations import HA_ACTIVATE_SCENE, HA_CALL_SERVICE, HA_FIRE_EVENT
from agent_gate.tools.home_assistant.fields import ALL
from agent_gate.tools.home_assistant.signatures import scene_call

SERVICE = "home_assistant"


def control_tools(client: HomeClient, clock: Clock, send: SendCommand) -> list[RegisteredTool]:
    control, undo = Control(client, clock), Undo(client, send)
    return [
        make_registered_tool(HA_CALL_SERVICE, SERVICE, bind=control.bind_service, undo=undo.bind),
        make_registered_tool(HA_ACTIVATE_SCENE, SERVICE, bind=control.bind_scene, undo=undo.bind),
        make_registered_tool(HA_FIRE_EVENT, SERVICE, bind=control.bind_event, undo=refuse_undo),
    ]


class Control:
    """Binds calls to what they reach in this home."""

    def __init__(self, client: HomeClient, clock: Clock) -> None:
        self._client, self._clock = client, clock

    async def bind_service(self, request: CallRequest, args: Mapping[str, Json], judge: Judge) -> Binding:
        home = self._client.home
        if home.is_live and not home.is_settled and _rests_on_registries(home, args):
            await self._settled()
        return self._binding(request, args, judge)

    async def bind_scene(self, request: CallRequest, args: Mapping[str, Json], judge: Judge) -> Binding:
        return self._binding(request, _scene_service(args), judge)

    async def bind_event(self, _: CallRequest, args: Mapping[str, Json], __: Judge) -> Binding:
        return event_binding(self._client, args)

    async def _settled(self) -> None:
        """Registries are read again soon after they have changed; if not, the call is refused."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._client.bounds.settled_s):
                await self._client.home.settled()

    def _binding(self, request: CallRequest, args: Mapping[str, Json], judge: Judge) -> Binding:
        try:
            reach = reach_now(self._client.home, args)
        except ToolError as error:
            return binding_of_unknown(error, request, args, judge, self._clock)
        calling = Calling(self._client, self._clock, args, reach)
        resources = {"service": reach.service, "targets": reach.targets}
        return Binding(
            reach.signatures,
            resources,
            calling.act,
            keep=calling.keep,
            preview=calling.preview,
            aliases=reach.aliases,
        )


@dataclass(frozen=True, slots=True)
class Calling:
    """One call of a service on its way from bind to perform."""

    client: HomeClient
    clock: Clock
    args: Mapping[str, Json]
    reach: Reach

    async def keep(self, _: BoundCall) -> bytes:
        """The states of everything that it reaches, after that was seen to be what was judged."""
        self._refuse_other_reach()
        return kept_states(self.client.home, self.reach, self.clock.now())

    async def act(self, bound: BoundCall) -> Json:
        self._refuse_other_reach()
        home, call = self.client.home, self.reach.call
        before = self._states()
        try:
            called = await self.client.call_service(
                call.domain,
                call.service,
                target=_target(self.args),
                data=self.args.get("data") or {},
                wants_response=home.services[call.domain, call.service].response != "none",
                timeout_s=self._time_s(bound),
                only_live=self.reach.is_expanded,
            )
        except Refused as refused:
            raise self._in_part(refused, before) from None
        return _told(called, self.reach, home)

    async def preview(self, _: BoundCall) -> Json:
        """Show how everything that it reaches is now; what it will become is the home's to say."""
        found = (self.client.home.entity(entity_id) for entity_id in self.reach.targets)
        return {"entities": {entity.entity_id: {"now": entity.state} for entity in found if entity}}

    def _states(self) -> dict[str, Entity | None]:
        return {entity_id: self.client.home.entity(entity_id) for entity_id in self.reach.targets}

    def _in_part(self, refused: Refused, before: Mapping[str, Entity | None]) -> Refused:
        """A service that fails on one target may have done with others; a server tells changes before it refuses."""
        changed = [f"`{entity_id}`" for entity_id, now in self._states().items() if now is not before[entity_id]]
        if not changed:
            return refused
        more = f" and {len(changed) - _NAMED_MAX} more" if changed[_NAMED_MAX:] else ""
        return Refused(
            refused.reason,
            f"{refused.problem.detail.rstrip('.')}; meanwhile {', '.join(changed[:_NAMED_MAX])}{more} changed",
            suggestion="look at the states before you do it again",
        )

    def _time_s(self, bound: BoundCall) -> float:
        """Over a little before the run's time is: what was sent and not answered is unknown, not cut off."""
        ends_at = bound.request.run_ends_at
        if ends_at is None:
            return self.client.bounds.service_s
        return min(self.client.bounds.service_s, 0.9 * max(0.0, ends_at - self.clock.monotonic()))

    def _refuse_other_reach(self) -> None:
        try:
            now = reach_now(self.client.home, self.args)
        except ToolError as error:
            raise Moved(f"{_MOVED}: {error.problem.detail}", suggestion=error.problem.suggestion) from None
        if (now.signatures, now.aliases) != (self.reach.signatures, self.reach.aliases):
            raise Moved(_MOVED, suggestion="look at what it would reach now, and call again")


_NAMED_MAX = 5
_MOVED = "what the call reaches has changed since it was judged; nothing was sent"


def reach_now(home: Home, args: Mapping[str, Json]) -> Reach:
    """Find what a call reaches, where that can be known now."""
    if not home.is_ready or not home.services:
        raise ToolError("Home Assistant has not been reached yet", code=2006, suggestion="try again in a moment")
    reach = reach_of(home, args)
    if reach.is_expanded and not home.is_live:
        raise ToolError(
            "Home Assistant is out of reach, so that nobody knows what groups, scenes, areas and the like hold now",
            code=2006,
            suggestion="try again in a moment, or name single entities",
        )
    if reach.names_places and not home.is_settled:
        raise ToolError(
            "areas, devices or entities have just been changed, and are still being read",
            code=2006,
            suggestion="try again in a moment, or name single entities",
        )
    return reach


def _rests_on_registries(home: Home, args: Mapping[str, Json]) -> bool:
    try:
        return reach_of(home, args).names_places
    except ToolError:
        return True


def _scene_service(args: Mapping[str, Json]) -> dict[str, Json]:
    """The call of a service that activating a scene is."""
    try:
        call = scene_call(args)
    except ArgumentError as error:
        raise ToolError(str(error), code=2002, suggestion=error.suggestion) from None
    transition = args.get("transition")
    return {
        "domain": call.domain,
        "service": call.service,
        "target": {"entity_id": list(call.entities)},
        "data": {} if transition is None else {"transition": transition},
    }


def _target(args: Mapping[str, Json]) -> dict[str, Json] | None:
    """As it was given; entities that were named in both places are joined."""
    target = dict(args.get("target") or {})
    named, also = args.get("entity_id"), target.get("entity_id")
    if named is not None:
        target["entity_id"] = named if also is None else _joined(named, also)
    return target or None


def _joined(named: Json, also: Json) -> Json:
    ids = [each for part in (named, also) for each in (part if isinstance(part, list | tuple) else [part])]
    return ALL if ALL in ids else list(dict.fromkeys(ids))


def _told(called: Called, reach: Reach, home: Home) -> dict[str, Json]:
    """The cause that Home Assistant gives it, what it changed, and how the other targets are right after it."""
    changed = {entity.entity_id for entity in called.changed}
    others = (home.entity(entity_id) for entity_id in reach.targets if entity_id not in changed)
    told: dict[str, Json] = {
        "context_id": called.context_id,
        "changed": [_entity(entity) for entity in called.changed],
        "other_targets": {entity.entity_id: entity.state for entity in others if entity},
    }
    return told if called.response is None else {**told, "response": called.response}


def _entity(entity: Entity) -> dict[str, Json]:
    return {
        "entity_id": entity.entity_id,
        "state": entity.state,
        "attributes": dict(entity.attributes),
        "last_changed": entity.last_changed,
        "last_updated": entity.last_updated,
    }

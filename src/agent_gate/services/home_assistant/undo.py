"""The undoing of a call of a service: what its targets were is brought back, unless they have changed since."""

from __future__ import annotations

from collections.abc import KeysView, Mapping, Sequence

import orjson

from agent_gate.model.call import BoundCall
from agent_gate.model.codec import canonical
from agent_gate.model.errors import ToolError
from agent_gate.model.tool import Json
from agent_gate.policy.judge import Judge
from agent_gate.ports.tools import Binding, Recorded
from agent_gate.services.home_assistant.client import HomeClient
from agent_gate.services.home_assistant.commands import SendCommand
from agent_gate.services.home_assistant.home import Entity, Home
from agent_gate.services.home_assistant.restorable import NO_STATE, RESTORABLE, Moment
from agent_gate.services.home_assistant.restoring import Findings, Restoring, Send, sends_for
from agent_gate.services.home_assistant.targets import Reach, is_made_of_others
from agent_gate.tools.home_assistant.reach import reaches_beyond

_SHOWN_MAX = 5


def kept_states(home: Home, reach: Reach, at: float) -> bytes:
    """Keep what is needed to undo a call: the states of everything that it reaches, before it acts."""
    found = (home.entity(entity_id) for entity_id in reach.targets)
    # What a group or a scene is follows from its members, which are among the targets too.
    own = [entity for entity in found if entity and not is_made_of_others(entity)]
    before = {entity.entity_id: Moment.of(entity).to_json() for entity in own}
    return canonical({"at": at, "before": before, "beyond": reaches_beyond(reach.signatures)})


class Undo:
    """Binds the undoing of earlier calls."""

    def __init__(self, client: HomeClient, send: SendCommand) -> None:
        self._client, self._send = client, send

    async def bind(self, call: Recorded, _: Judge) -> Binding:
        findings, sends = self._look(call)
        restoring = Restoring(self._client.home, self._send, sends, findings, lambda: self._look(call)[1])
        services = sorted(f"{send.call.domain}.{send.call.service}" for send in sends)
        states = {entity_id: before.state for entity_id, before in findings.to_restore.items()}
        resources = {"service": ", ".join(services), "targets": sorted(states), "states": states}

        async def preview(_: BoundCall) -> Json:
            now = self._client.home.entities
            return {"entities": {one: {"now": now[one].state, "then": then} for one, then in states.items()}}

        return Binding(restoring.signatures, resources, restoring.act, keep=restoring.keep, preview=preview)

    def _look(self, call: Recorded) -> tuple[Findings, Sequence[Send]]:
        """Find what is to be brought back, and how; ToolError where that is nothing, or has changed since."""
        home = self._client.home
        if not home.is_live:
            raise ToolError(
                "Home Assistant is out of reach, so that nobody knows how things are now",
                code=2006,
                suggestion="try again in a moment",
            )
        findings = find(home, call)
        sends = sends_for(home, findings)
        if not sends:
            raise _nothing_to_do(call, findings)
        return findings, sends


def find(home: Home, call: Recorded) -> Findings:
    """ToolError where an entity is not as the call left it."""
    if call.kept is None:
        raise ToolError(f"what call `{call.call_id}` found was not kept", suggestion="set things by hand")
    kept = orjson.loads(call.kept)
    left, findings = _Left(call), Findings()
    for entity_id, fields in kept["before"].items():
        _sort(home.entity(entity_id), entity_id, Moment.from_json(fields), left, findings)
    if kept.get("beyond"):  # an undoing keeps only states
        findings.not_restored[call.resources["service"]] = "what it set off cannot be known"
    for entity_id in sorted(left.changed - kept["before"].keys()):
        entity = home.entity(entity_id)
        if entity and entity.domain in RESTORABLE and not is_made_of_others(entity):
            findings.not_restored[entity_id] = "it was changed too, and what it was before was not kept"
    return findings


def _sort(entity: Entity | None, entity_id: str, before: Moment, left: _Left, findings: Findings) -> None:
    domain = entity_id.partition(".")[0]
    if domain not in RESTORABLE:
        findings.not_restored[entity_id] = f"Home Assistant cannot bring back a `{domain}`"
    elif entity is None:
        raise left.changed_since(entity_id, before, "is gone")
    elif (now := Moment.of(entity)) == before:
        findings.already.append(entity_id)
    elif not left.was(entity, before):
        raise left.changed_since(entity_id, before, f"is {now} now")
    elif before.state in NO_STATE:
        findings.not_restored[entity_id] = f"it was {before.state} before the call"
    else:
        findings.to_restore[entity_id] = before


class _Left:
    """The targets as a call left them, as far as its outcome tells."""

    def __init__(self, call: Recorded) -> None:
        told: Mapping[str, Json] = call.outcome.data if isinstance(call.outcome.data, Mapping) else {}
        self._call = call
        self._context_ids = {told.get("context_id"), *told.get("context_ids", ())} - {None}
        self._changed = {
            fields["entity_id"]: Moment.made_of(fields["entity_id"], fields["state"], fields["attributes"])
            for fields in told.get("changed", ())
        }
        self._others: Mapping[str, str] = told.get("other_targets") or told.get("restored", {})

    @property
    def changed(self) -> KeysView[str]:
        return self._changed.keys()

    def was(self, entity: Entity, before: Moment) -> bool:
        """Tell whether the call left an entity as it is now; what came later by the same cause is its doing too."""
        if entity.context_id in self._context_ids:
            return True
        left = self._changed.get(entity.entity_id)
        if left is not None:
            return left.has_come_to(Moment.of(entity))
        return before.state != self._others.get(entity.entity_id, before.state) == entity.state

    def changed_since(self, entity_id: str, before: Moment, now: str) -> ToolError:
        call_id = self._call.call_id
        if not self._call.outcome.ok:
            return ToolError(
                f"nobody knows how call `{call_id}` left `{entity_id}`, which was {before} before it and {now}",
                suggestion="look at it, and set it by hand",
            )
        left = self._changed.get(entity_id, before)
        return ToolError(
            f"`{entity_id}` has changed since call `{call_id}`: it was left as {left} and {now}",
            suggestion="set it by hand, or revert the later change first",
        )


def _nothing_to_do(call: Recorded, findings: Findings) -> ToolError:
    reasons = "; ".join(f"`{name}`: {why}" for name, why in list(findings.not_restored.items())[:_SHOWN_MAX])
    besides = f" ({reasons})" if reasons else ""
    if findings.already:
        others = f" and {len(findings.already) - 1} more are" if findings.already[1:] else " is"
        detail = f"`{findings.already[0]}`{others} already as before call `{call.call_id}`{besides}"
        return ToolError(detail, suggestion="nothing is to be done")
    detail = f"call `{call.call_id}` changed nothing that can be brought back{besides}"
    return ToolError(detail, code=2002, suggestion="look at what it did")

"""`subscribe_entities`: all states at once, then only what changes in them."""

from __future__ import annotations

from agent_gate.model.tool import Json
from agent_gate.simulated_home.bus import Event
from agent_gate.simulated_home.command import Message
from agent_gate.simulated_home.session import Session
from agent_gate.simulated_home.states import State


def subscribe_entities(session: Session, message: Message) -> None:
    number, wanted = message["id"], set(message.get("entity_ids", ()))
    shown: dict[str, State] = {
        entity_id: state for entity_id, state in session.home.states.items() if not wanted or entity_id in wanted
    }

    def forward(event: Event) -> None:
        entity_id = event.data["entity_id"]
        if wanted and entity_id not in wanted:
            return
        session.send({"id": number, "type": "event", "event": _change(shown, entity_id, event.new_state)})

    session.subscriptions[number] = session.home.bus.listen("state_changed", forward)
    session.result(number)
    first = {entity_id: _compressed(state) for entity_id, state in shown.items()}
    session.send({"id": number, "type": "event", "event": {"a": first}})


def _change(shown: dict[str, State], entity_id: str, after: State | None) -> dict[str, Json]:
    before = shown.pop(entity_id, None)
    if after is None:
        return {"r": [entity_id]}
    shown[entity_id] = after
    if before is None:
        return {"a": {entity_id: _compressed(after)}}
    return {"c": {entity_id: _difference(before, after)}}


def _compressed(state: State) -> dict[str, Json]:
    fields: dict[str, Json] = {"s": state.state, "a": dict(state.attributes), "c": state.context.id}
    if state.context.user_id is not None:
        fields["c"] = state.context.as_json()
    later = {} if state.changed_at == state.updated_at else {"lu": state.updated_at}
    return {**fields, "lc": state.changed_at, **later}


def _difference(before: State, after: State) -> dict[str, Json]:
    plus: dict[str, Json] = {}
    if before.state != after.state:
        plus |= {"s": after.state, "lc": after.changed_at}
    else:
        plus["lu"] = after.updated_at
    same_user = before.context.user_id == after.context.user_id
    plus["c"] = after.context.id if same_user else {"id": after.context.id, "user_id": after.context.user_id}
    changed = {key: value for key, value in after.attributes.items() if before.attributes.get(key, ...) != value}
    if changed:
        plus["a"] = changed
    gone = [key for key in before.attributes if key not in after.attributes]
    return {"+": plus, **({"-": {"a": gone}} if gone else {})}

"""Commands of the WebSocket API, and the shape that each message must have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timezone

from agent_gate.model.tool import Json
from agent_gate.simulated_home.bus import EVERYTHING, Event
from agent_gate.simulated_home.calling import call_service
from agent_gate.simulated_home.command import Command, Message, Refusal
from agent_gate.simulated_home.description import config, descriptions, translations
from agent_gate.simulated_home.entity_feed import subscribe_entities
from agent_gate.simulated_home.faults import Invalid, ServiceError
from agent_gate.simulated_home.recorder import PERIODS_S
from agent_gate.simulated_home.registry_commands import REGISTRY_COMMANDS
from agent_gate.simulated_home.session import Session
from agent_gate.simulated_home.targets import TARGET_KEYS, checked_target

OPEN_EVENTS = {
    "area_registry_updated",
    "component_loaded",
    "core_config_updated",
    "device_registry_updated",
    "entity_registry_updated",
    "lovelace_updated",
    "panels_updated",
    "recorder_5min_statistics_generated",
    "recorder_hourly_statistics_generated",
    "repairs_issue_registry_updated",
    "service_registered",
    "service_removed",
    "shopping_list_updated",
    "state_changed",
    "themes_updated",
}
"""Events to which somebody may subscribe who is no admin."""


def take(session: Session, message: Message) -> bool:
    """Answer one message whose id is in order; an unknown command does not use that up."""
    command = COMMANDS.get(message["type"])
    if command is None:
        session.error(message["id"], {"code": "unknown_command", "message": "Unknown command."})
        return False
    try:
        if command.is_for_admins and not (session.user and session.user.is_admin):
            raise Refusal("unauthorized", "Unauthorized")
        if problems := command.problems(message):
            raise Refusal("invalid_format", "\n".join(problems))
        command.act(session, message)
    except Refusal as refusal:
        session.error(message["id"], {"code": refusal.code, "message": str(refusal)})
    return True


def _ping(session: Session, message: Message) -> None:
    session.send({"id": message["id"], "type": "pong"})


def _supported_features(session: Session, message: Message) -> None:
    session.can_coalesce = "coalesce_messages" in message["features"]
    session.result(message["id"])


def _subscribe(session: Session, message: Message) -> None:
    event_type, number = message.get("event_type", EVERYTHING), message["id"]
    if event_type not in OPEN_EVENTS and not (session.user and session.user.is_admin):
        raise Refusal("unauthorized", "Unauthorized")
    tail = b',"id":%d}' % number

    def forward(event: Event) -> None:
        session.send_bytes(event.message + tail)

    session.subscriptions[number] = session.home.bus.listen(event_type, forward)
    session.result(number)


def _unsubscribe(session: Session, message: Message) -> None:
    end = session.subscriptions.pop(message["subscription"], None)
    if end is None:
        raise Refusal("not_found", "Subscription not found.")
    end()
    session.result(message["id"])


def _call_service(session: Session, message: Message) -> None:
    target = message.get("target", {})
    extra = [key for key in target if key not in TARGET_KEYS]
    if extra:
        raise Refusal(
            "invalid_format", f"extra keys not allowed @ data['target']['{extra[0]}']. Got {target[extra[0]]!r}"
        )
    for key in target:
        try:
            checked_target({key: target[key]}, "target")
        except Invalid as error:
            raise Refusal("invalid_format", f"{error}. Got {target[key]!r}") from None
    session.home.background(_called(session, message))


async def _called(session: Session, message: Message) -> None:
    home, wants = session.home, message.get("return_response", False)
    context = home.context(session.user)
    data = {**message.get("service_data", {}), **message.get("target", {})}
    error: dict[str, Json] | None = None
    answer: Json = None
    try:
        answer = await call_service(home, message["domain"], message["service"], data, context, wants_response=wants)
    except ServiceError as refused:
        error = refused.as_json()
    except Exception as failure:  # as the real server tells of what nobody thought of
        error = {"code": "unknown_error", "message": str(failure)}
    await home.life.answering.wait()
    if error is not None:
        session.error(message["id"], error)
        return
    session.result(message["id"], {"context": context.as_json(), **({"response": answer} if wants else {})})


def _fire_event(session: Session, message: Message) -> None:
    context = session.home.context(session.user)
    session.home.bus.fire(message["event_type"], message.get("event_data", {}), context)
    session.result(message["id"], {"context": context.as_json()})


def _statistic_ids(session: Session, message: Message) -> None:
    session.result(message["id"], session.home.recorder.listed())


def _current_user(session: Session, message: Message) -> None:
    user = session.user
    assert user is not None
    told = {"id": user.id, "name": user.name, "is_owner": user is session.home.owner, "is_admin": user.is_admin}
    session.result(message["id"], {**told, "credentials": [], "mfa_modules": []})


def _statistics(session: Session, message: Message) -> None:
    if not message["statistic_ids"]:
        raise Refusal(
            "invalid_format",
            "length of value must be at least 1 for dictionary value @ data['statistic_ids']. Got []",
        )
    if message["period"] not in PERIODS_S:
        raise Refusal(
            "invalid_format", f"not a valid value for dictionary value @ data['period']. Got {message['period']!r}"
        )
    begin = _moment(message["start_time"], "start_time")
    end = _moment(message["end_time"], "end_time") if "end_time" in message else None
    rows = session.home.recorder.statistics_of(
        message["statistic_ids"], begin, end, message["period"], message.get("types", ())
    )
    session.result(message["id"], rows)


def _moment(text: str, name: str) -> float:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Refusal(f"invalid_{name}", f"Invalid {name}") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()


def _answering(answer: Callable[[Session, Message], Json]) -> Callable[[Session, Message], None]:
    def act(session: Session, message: Message) -> None:
        session.result(message["id"], answer(session, message))

    return act


COMMANDS: Mapping[str, Command] = {
    "ping": Command(_ping),
    "supported_features": Command(_supported_features, {"features": dict}),
    "subscribe_events": Command(_subscribe, {}, {"event_type": str}),
    "subscribe_entities": Command(subscribe_entities, {}, {"entity_ids": list}),
    "unsubscribe_events": Command(_unsubscribe, {"subscription": int}),
    "get_states": Command(_answering(lambda session, _: [one.as_json() for one in session.home.states.values()])),
    "get_config": Command(_answering(lambda session, _: config(session.home))),
    "get_services": Command(_answering(lambda session, _: descriptions(session.home))),
    "call_service": Command(
        _call_service,
        {"domain": str, "service": str},
        {"target": dict, "service_data": dict, "return_response": bool},
    ),
    "fire_event": Command(_fire_event, {"event_type": str}, {"event_data": dict}, is_for_admins=True),
    **REGISTRY_COMMANDS,
    "auth/current_user": Command(_current_user),
    "recorder/list_statistic_ids": Command(_statistic_ids, {}, {"statistic_type": str}),
    "recorder/statistics_during_period": Command(
        _statistics,
        {"statistic_ids": list, "start_time": str, "period": str},
        {"end_time": str, "types": list, "units": dict},
    ),
    "frontend/get_translations": Command(
        _answering(lambda session, message: {"resources": translations(session.home, message["category"])}),
        {"language": str, "category": str},
        {"integration": list, "config_flow": bool},
    ),
}

"""A call of a service from its words to its effect: checked in the order in which the real server checks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from agent_gate.model.tool import Json
from agent_gate.simulated_home.faults import Invalid, Misused, NotFound, Unauthorized, Unsupported
from agent_gate.simulated_home.services import Call, Service
from agent_gate.simulated_home.states import Context
from agent_gate.simulated_home.targets import TARGET_KEYS, checked_target, found

if TYPE_CHECKING:
    from agent_gate.simulated_home.home import SimulatedHome


async def call_service(
    home: SimulatedHome,
    domain: str,
    name: str,
    data: Mapping[str, Json],
    context: Context,
    *,
    wants_response: bool = False,
) -> Json:
    """Call the service; `data` holds the target too, side by side with the fields."""
    service = home.services.get((domain.lower(), name.lower()))
    if service is None:
        raise NotFound(domain, name)
    if wants_response and service.response == "none":
        raise Misused("Invalid argument return_response=True when handler does not support responses")
    if not wants_response and service.response == "only":
        raise Misused("Service call requires responses but caller did not ask for responses")
    values, target = _checked(service, data)
    fired = {"domain": service.domain, "service": service.name, "service_data": dict(data)}
    home.bus.fire("call_service", fired, context)
    user = home.users.by_id(context.user_id)
    if user is not None and (
        (service.is_for_admins and not user.is_admin) or (service.needs_control and not user.may_control)
    ):
        raise Unauthorized
    entities = found(home, target, service.acts_on) if service.acts_on is not None else ()
    for state in entities:
        if service.feature and not state.attributes.get("supported_features", 0) & service.feature:
            raise Unsupported(f"Entity {state.entity_id} does not support this service.")
    call = Call(home, service.domain, service.name, values, context, user, entities, wants_response)
    home.remember(call, data)
    answer = await service.work(call)
    return answer if wants_response else None


def _checked(service: Service, data: Mapping[str, Json]) -> tuple[dict[str, Json], dict[str, list[str]]]:
    """The fields' values and the target, or what is wrong with the first that is."""
    keys = TARGET_KEYS if service.acts_on is not None else ()
    values: dict[str, Json] = {}
    for key, value in data.items():
        if key in keys:
            continue
        field = service.fields.get(key)
        if field is None and not service.takes_anything:
            raise Invalid("extra keys not allowed", key)
        try:
            values[key] = field.check(value) if field else value
        except ValueError as error:
            raise Invalid(f"{error} for dictionary value", key) from None
    for key, field in service.fields.items():
        if field.is_required and key not in data:
            raise Invalid("required key not provided", key)
    target = checked_target({key: data[key] for key in keys if key in data})
    if service.acts_on is not None and not target:
        raise Invalid(f"must contain at least one of {', '.join(TARGET_KEYS)}.")
    return values, target

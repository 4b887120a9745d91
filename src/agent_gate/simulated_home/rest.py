"""The REST API: the same home, with the real server's few words for what went wrong."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import orjson
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from agent_gate.model.tool import Json
from agent_gate.simulated_home.bus import Event
from agent_gate.simulated_home.calling import call_service
from agent_gate.simulated_home.description import config, descriptions
from agent_gate.simulated_home.faults import ServiceError
from agent_gate.simulated_home.targets import is_entity_id
from agent_gate.simulated_home.templates import RenderError, render
from agent_gate.simulated_home.users import User

if TYPE_CHECKING:
    from agent_gate.simulated_home.home import SimulatedHome

DAY_S = 86_400.0
_REASONS = {
    400: "400: Bad Request",
    401: "401: Unauthorized",
    404: "404: Not Found",
    500: "500 Internal Server Error\n\nServer got itself in trouble",
}
Handler = Callable[["SimulatedHome", User, Request], Awaitable[Response]]


def bare(status: int) -> Response:
    """An error without a reason."""
    return PlainTextResponse(_REASONS[status], status)


def _json(value: Json, status: int = 200) -> Response:
    return Response(orjson.dumps(value), status, media_type="application/json")


def _message(text: str, status: int = 200) -> Response:
    return _json({"message": text}, status)


async def _status(_home: SimulatedHome, _user: User, _request: Request) -> Response:
    return _message("API running.")


async def _config(home: SimulatedHome, _user: User, _request: Request) -> Response:
    return _json(config(home))


async def _states(home: SimulatedHome, _user: User, _request: Request) -> Response:
    return _json([state.as_json() for state in home.states.values()])


async def _state(home: SimulatedHome, _user: User, request: Request) -> Response:
    state = home.states.get(request.path_params["entity_id"])
    return _json(state.as_json()) if state else _message("Entity not found.", 404)


async def _set_state(home: SimulatedHome, user: User, request: Request) -> Response:
    """Such a state does not outlive a restart."""
    if not user.is_admin:
        return bare(401)
    entity_id = request.path_params["entity_id"]
    try:
        body = orjson.loads(await request.body())
    except ValueError:
        return _message("Invalid JSON specified.", 400)
    if body.get("state") is None:
        return _message("No state specified.", 400)
    if not is_entity_id(entity_id):
        return _message("Invalid entity ID specified.", 400)
    is_new = entity_id not in home.states
    home.write(entity_id, str(body["state"]), body.get("attributes") or {}, home.context(user))
    return _json(home.states[entity_id].as_json(), 201 if is_new else 200)


async def _services(home: SimulatedHome, _user: User, _request: Request) -> Response:
    return _json([{"domain": domain, "services": services} for domain, services in descriptions(home).items()])


async def _call(home: SimulatedHome, user: User, request: Request) -> Response:
    """Every state that was written in the call's own context, in order."""
    body = await request.body()
    try:
        data = orjson.loads(body) if body else {}
    except ValueError:
        return _message("Data should be valid JSON.", 400)
    context, changed = home.context(user), []

    def note(event: Event) -> None:
        if event.context == context and event.new_state:
            changed.append(event.new_state.as_json())

    end = home.bus.listen("state_changed", note)
    try:
        await call_service(home, request.path_params["domain"], request.path_params["service"], data, context)
    except ServiceError as error:
        return bare(error.status)
    finally:
        end()
        await home.life.answering.wait()
    return _json(changed)


async def _fire(home: SimulatedHome, user: User, request: Request) -> Response:
    if not user.is_admin:
        return bare(401)
    body = await request.body()
    try:
        data = orjson.loads(body) if body else None
    except ValueError:
        return _message("Event data should be valid JSON.", 400)
    if data is not None and not isinstance(data, dict):
        return _message("Event data should be a JSON object", 400)
    event_type = request.path_params["event_type"]
    home.bus.fire(event_type, data or {}, home.context(user), "REMOTE")
    return _message(f"Event {event_type} fired.")


async def _history(home: SimulatedHome, _user: User, request: Request) -> Response:
    query, now = request.query_params, home.now()
    begin = _moment(request.path_params["begin"])
    if begin is None:
        return _message("Invalid datetime", 400)
    entity_ids = query.get("filter_entity_id", "").strip().lower().split(",")
    if entity_ids == [""]:
        return _message("filter_entity_id is missing", 400)
    if not all(is_entity_id(entity_id) for entity_id in entity_ids):
        return _message("Invalid filter_entity_id", 400)
    if begin > now:
        return _json([])
    end = _moment(query["end_time"]) if query.get("end_time") else begin + DAY_S
    if end is None:
        return _message("Invalid end_time", 400)
    significant = query.get("significant_changes_only", "1") != "0"
    minimal = "minimal_response" in query
    return _json(home.recorder.history(entity_ids, begin, end, minimal=minimal, significant=significant))


async def _template(home: SimulatedHome, user: User, request: Request) -> Response:
    if not user.is_admin:
        return bare(401)
    try:
        body = orjson.loads(await request.body())
        template = body["template"]
    except ValueError as error:
        return _message(f"Error rendering template: {error}", 400)
    except (KeyError, TypeError):
        return bare(500)
    try:
        return PlainTextResponse(render(home, template, body.get("variables") or {}))
    except RenderError as error:
        return _message(f"Error rendering template: {error}", 400)


def _moment(text: str) -> float | None:
    """A `+` that nobody encoded has become a space, and is refused."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()


def routes(home: SimulatedHome) -> list[Route]:
    def guarded(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            await home.life.speaking.wait()
            kind, _, token = request.headers.get("authorization", "").partition(" ")
            user = home.users.by_token(token) if kind == "Bearer" else None
            return await handler(home, user, request) if user else bare(401)

        return answer

    return [
        Route("/api/", guarded(_status)),
        Route("/api/config", guarded(_config)),
        Route("/api/states", guarded(_states)),
        Route("/api/states/{entity_id}", guarded(_state), methods=["GET"]),
        Route("/api/states/{entity_id}", guarded(_set_state), methods=["POST"]),
        Route("/api/services", guarded(_services)),
        Route("/api/services/{domain}/{service}", guarded(_call), methods=["POST"]),
        Route("/api/events/{event_type}", guarded(_fire), methods=["POST"]),
        Route("/api/history/period/{begin}", guarded(_history)),
        Route("/api/template", guarded(_template), methods=["POST"]),
    ]

"""The web console at `/console`: where approvers see, decide and look back."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from agent_gate.doors.console import call, check, health, inbox, people, runs, states, timeline
from agent_gate.doors.console.events import Events
from agent_gate.doors.console.frame import HOME, Console, Handler
from agent_gate.doors.console.sign_in import SignIn
from agent_gate.doors.context import ServerContext


def routes(context: ServerContext) -> list[BaseRoute]:
    console = Console(context)
    sign_in, events = SignIn(console), Events(console)

    def see(path: str, handler: Handler) -> Route:
        return Route(f"{HOME}{path}", console.page(handler, f"{HOME}{path}"), methods=["GET"])

    def do(path: str, handler: Handler, *, for_all: bool = False) -> Route:
        endpoint = console.page(handler, f"{HOME}{path}", for_all=for_all)
        return Route(f"{HOME}{path}", endpoint, methods=["POST"])

    return [
        Route("/", _to_the_console, methods=["GET"]),
        Route(f"{HOME}/static/{{name}}", console.assets.serve, methods=["GET"]),
        Route(f"{HOME}/sign-in", sign_in.show, methods=["GET"]),
        Route(f"{HOME}/sign-in", sign_in.take, methods=["POST"]),
        do("/sign-out", sign_in.sign_out, for_all=True),
        see("", inbox.show),
        see("/events", events.stream),
        do("/questions/{call_id}/answer", inbox.answer),
        do("/questions/{call_id}/try", inbox.try_it),
        see("/timeline", timeline.show),
        see("/calls/{call_id}", call.show),
        do("/calls/{call_id}/undo", call.undo),
        see("/runs", runs.show_all),
        see("/runs/{run_id}", runs.show),
        see("/runs/{run_id}/report", runs.show_report),
        see("/state", states.show_all),
        see("/state/{project}", states.show),
        do("/state/{project}/revert", states.revert),
        see("/check", check.show),
        do("/check", check.take),
        see("/grants", people.show_grants),
        do("/grants/{grant_id}/revoke", people.revoke),
        see("/switch", people.show_switch),
        do("/switch/pause", people.pause),
        do("/switch/resume", people.resume),
        see("/health", health.show),
        do("/health/verify", health.verify),
    ]


async def _to_the_console(_: Request) -> Response:
    """Whoever types the address alone is a person."""
    return RedirectResponse(HOME, 303)

"""Signing in with an approver's token, and out again."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from agent_gate.doors.console.frame import HEADERS, HOME, Console, Visit, form_of, place_within
from agent_gate.doors.http import address_of
from agent_gate.doors.throttle import seconds_of, slowed_down
from agent_gate.model.bounds import TOKEN_CHARS_MAX
from agent_gate.model.errors import GateError, Problem

SAME_SITE = ("same-origin", "none")
"""Values by which a browser says that a form is ours; older ones say nothing, and are held by Origin alone."""


class SignIn:
    def __init__(self, console: Console) -> None:
        self._console = console

    async def show(self, request: Request) -> Response:
        if self._console.sessions.find(self._console.cookie_of(request), active=False):
            return RedirectResponse(HOME, 303, HEADERS)
        return self._form(place_within(request.query_params.get("next", "")))

    async def take(self, request: Request) -> Response:
        if request.headers.get("sec-fetch-site", "none") not in SAME_SITE:
            return self._refused(request, Problem(6003, "the form came from another site"), HOME, 403)
        try:
            form = await form_of(request)
        except GateError as error:
            return self._refused(request, error.problem, HOME, 400)
        wanted = place_within(form.get("next", ""))
        address, token = address_of(request), form.get("token", "").strip()
        throttle = self._console.context.throttle
        wait_s = throttle.wait_s(address, token)
        if wait_s:
            response = self._refused(request, slowed_down(wait_s), wanted, 429)
            response.headers["retry-after"] = str(seconds_of(wait_s))
            return response
        approver = self._console.context.identities.approver(token) if 0 < len(token) <= TOKEN_CHARS_MAX else None
        if approver is None:
            throttle.failed(address)
            problem = Problem(6002, "this token is not an approver's", "see `approvers` in the configuration")
            return self._refused(request, problem, wanted, 401)
        throttle.succeeded(address, token)
        # Whatever cookie the browser brought along ends here: nobody else can know the new one.
        self._console.sessions.end(self._console.cookie_of(request))
        cookie, _ = self._console.sessions.begin(approver.id)
        response = RedirectResponse(wanted, 303, HEADERS)
        self._console.give_cookie(response, cookie)
        return response

    async def sign_out(self, visit: Visit) -> Response:
        self._console.sessions.end(self._console.cookie_of(visit.request))
        response = self._form(HOME, "You are signed out.")
        self._console.take_cookie(response)
        return response

    def _form(self, wanted: str, why: str = "", status: int = 200) -> Response:
        return self._console.answer("sign_in.html", {"next": wanted, "why": why}, status)

    def _refused(self, request: Request, problem: Problem, wanted: str, status: int) -> Response:
        who = f"console:{request.client.host}" if request.client else "console"
        self._console.context.gate.count_refusal(who, problem)
        why = f"{problem.detail[:1].upper()}{problem.detail[1:]}"
        return self._form(wanted, f"{why}; {problem.suggestion}." if problem.suggestion else f"{why}.", status)

"""The frame of every page of the console: who looks at it, what a form must carry, how a page is answered."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, TypeAlias, TypeVar
from urllib.parse import parse_qsl, quote

import jinja2
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from agent_gate import __version__
from agent_gate.doors.codes import http_status_of_problem
from agent_gate.doors.console import shown
from agent_gate.doors.console.assets import Assets
from agent_gate.doors.console.sessions import Notice, Session, Sessions
from agent_gate.doors.context import ServerContext
from agent_gate.doors.http import body_of
from agent_gate.doors.reads import look
from agent_gate.history import inbox
from agent_gate.history.replay_words import in_words
from agent_gate.model.approval import Approver
from agent_gate.model.bounds import CONSOLE_PARTS_MAX, CONSOLE_VALUE_CHARS_MAX
from agent_gate.model.errors import GateError, Problem, StorageError, ToolError
from agent_gate.model.tool import Json
from agent_gate.model.visible import more, visible_lines

T = TypeVar("T")
Handler: TypeAlias = Callable[["Visit"], Awaitable[Response]]
Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]

DOOR, HOME = "console", "/console"
NOTHING_KNOWN = inbox.Mark(0, paused=False, digest="")
FIELDS_MAX = 32
AUTOMATIC = "x-console-refresh"
"""A header of requests that the page makes by itself: they keep no session alive."""

HEADERS: Mapping[str, str] = {
    "cache-control": "no-store",
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
        " form-action 'self'; base-uri 'none'; frame-ancestors 'none';"
        " require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    # `no-referrer` would let browsers send forms without their origin, which the door checks.
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}

_LOCAL = re.compile(r"/console(?:/[A-Za-z0-9][A-Za-z0-9._~%-]*)*(?:\?[A-Za-z0-9._~%=&+-]*)?")
"""No part begins with a dot, written or encoded, so none leads up."""


class Console:
    """One for each server."""

    def __init__(self, context: ServerContext) -> None:
        self.context = context
        monotonic = context.gate.clock.monotonic
        self.sessions, self.assets = Sessions(monotonic), Assets()
        self.verifying = asyncio.Lock()
        self._has_tls = context.config.gateway.tls is not None
        self._templates = templates(self.assets)

    def cookie_name(self) -> str:
        """With TLS, a name that no other host and no page without TLS can set."""
        return "__Host-agent-gate" if self._has_tls else "agent-gate"

    def give_cookie(self, response: Response, cookie: str) -> None:
        path = "/" if self._has_tls else HOME
        response.set_cookie(
            self.cookie_name(), cookie, path=path, httponly=True, samesite="strict", secure=self._has_tls
        )

    def take_cookie(self, response: Response) -> None:
        path = "/" if self._has_tls else HOME
        response.delete_cookie(self.cookie_name(), path=path, httponly=True, samesite="strict", secure=self._has_tls)

    def cookie_of(self, request: Request) -> str:
        return request.cookies.get(self.cookie_name(), "")

    def page(self, handler: Handler, place: str, *, for_all: bool = False) -> Endpoint:
        """A place for people who are signed in, and unless it is `for_all` of them, whose role lets them look.

        A form must carry the token of their session.
        """

        async def endpoint(request: Request) -> Response:
            session = self.sessions.find(self.cookie_of(request), active=AUTOMATIC not in request.headers)
            if session is None:
                return self._to_sign_in(request)
            visit = Visit(self, request, session, self.context.identities.approvers[session.approver_id])
            try:
                if request.method == "POST":
                    visit.form = await form_of(request)
                    if not session.sent_from_here(visit.form.get("csrf", "")):
                        problem = Problem(6003, "the form is not of this session", "load the page again and repeat it")
                        self.context.gate.count_refusal(visit.approver.id, problem)
                        return await visit.problem(problem)
                if not for_all:
                    look(self.context, visit.approver, DOOR, place)
                return await handler(visit)
            except GateError as error:
                return await visit.problem(error.problem)

        return endpoint

    def _to_sign_in(self, request: Request) -> Response:
        if request.method != "GET" or AUTOMATIC in request.headers:
            return self.answer("sign_in.html", {"why": "Your session has ended.", "next": HOME}, 401)
        wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        where = f"{HOME}/sign-in" if wanted == HOME else f"{HOME}/sign-in?next={quote(wanted, safe='')}"
        return RedirectResponse(where, 303, HEADERS)

    def answer(self, template: str, fields: Mapping[str, Any], status: int = 200) -> Response:
        return HTMLResponse(self._templates.get_template(template).render(fields), status, HEADERS)

    async def read(self, question: Callable[..., T], *args: Any, **options: Any) -> T:
        """A question about the past, in a thread of its own."""
        return await self.context.readings.ask(lambda reader: question(reader, *args, **options))


@dataclass(slots=True)
class Visit:
    """One request of somebody who is signed in."""

    console: Console
    request: Request
    session: Session
    approver: Approver
    form: Mapping[str, str] = field(default_factory=dict)

    @property
    def context(self) -> ServerContext:
        return self.console.context

    @property
    def now(self) -> float:
        return self.context.gate.clock.now()

    def asked(self, name: str) -> str:
        """A parameter of the address; empty where it is not there."""
        return self.request.query_params.get(name, "").strip()

    async def page(self, template: str, status: int = 200, **fields: Any) -> Response:
        mark = await self.console.read(inbox.mark, self.context.gate.clock)
        return await self._rendered(template, status, mark, fields)

    async def problem(self, problem: Problem) -> Response:
        """The page of a refusal, also where the ledger is what fails: then the frame knows of no questions."""
        status, fields = http_status_of_problem(problem), {"problem": problem}
        try:
            return await self.page("problem.html", status, **fields)
        except StorageError:
            return await self._rendered("problem.html", status, NOTHING_KNOWN, fields)

    async def _rendered(self, template: str, status: int, mark: inbox.Mark, fields: Mapping[str, Any]) -> Response:
        frame = {
            "approver": self.approver,
            "csrf": self.session.csrf_token,
            "mark": mark,
            "notices": [] if AUTOMATIC in self.request.headers else self.session.take_notices(),
            "now": self.now,
            "place": template.removesuffix(".html"),
            "room": shown.Room(),
            "version": __version__,
        }
        # Not on the loop: others wait there while a page of a large call is made.
        return await asyncio.to_thread(self.console.answer, template, {**frame, **fields}, status)

    def go(self, *path: str, **query: str) -> Response:
        """To another page of the console."""
        return RedirectResponse(address(*path, **query), 303, HEADERS)

    def tell(self, text: str, kind: str = "done", call_id: str = "") -> None:
        self.session.tell(Notice(text, kind, call_id))

    def tell_problem(self, problem: Problem) -> None:
        self.tell(str(problem), "refused")


def address(*path: str, **query: str) -> str:
    """A place within the console; whatever its parts hold stays within them."""
    where = "/".join([HOME, *(quote(part, safe="") for part in path)])
    asked = "&".join(f"{name}={quote(value, safe='')}" for name, value in query.items() if value)
    return f"{where}?{asked}" if asked else where


def place_within(text: str) -> str:
    """The page that somebody wanted before signing in, if it is one of ours."""
    return text if _LOCAL.fullmatch(text) else HOME


async def form_of(request: Request) -> dict[str, str]:
    """The fields of a form; of a name that comes twice, the first."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise ToolError("that is not a form", code=2002, suggestion="use the console's own pages")
    try:
        text = (await body_of(request)).decode()
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=FIELDS_MAX, errors="strict")
    except ValueError:
        raise ToolError("the form cannot be read", code=2002, suggestion="load the page again") from None
    fields: dict[str, str] = {}
    for name, value in pairs:
        fields.setdefault(name, value)
    return fields


def templates(assets: Assets) -> jinja2.Environment:
    folder = str(files(__package__) / "templates")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_visible,
    )
    environment.globals.update(asset=assets.url, address=address, parts_max=CONSOLE_PARTS_MAX)
    environment.filters.update(
        agent_text=_agent_text,
        as_typed=shown.as_typed,
        brief=shown.brief,
        diff_lines=_diff_lines,
        found_by_replay=in_words,
        moment=shown.moment,
        size=shown.size_of,
        span=shown.span,
        time_of_day=shown.time_of_day,
        value=_value,
    )
    return environment


@jinja2.pass_context
def _agent_text(page: jinja2.runtime.Context, text: str, rest: str = "") -> Markup:
    return shown.agent_text(text, page.get("room"), rest)


@jinja2.pass_context
def _value(page: jinja2.runtime.Context, value: Json, rest: str = "") -> Markup:
    return shown.value_shown(value, page.get("room"), rest)


@jinja2.pass_context
def _diff_lines(page: jinja2.runtime.Context, diff: str) -> list[tuple[str, Markup]]:
    return shown.diff_lines(diff, page.get("room"))


def _visible(value: object) -> object:
    """Every text on every page, so that none has to be thought of; markup of ours has been through it already."""
    if isinstance(value, Markup):
        return value
    lines, left_out = visible_lines(str(value), CONSOLE_VALUE_CHARS_MAX)
    return "\n".join(lines) + (more(left_out) if left_out else "")

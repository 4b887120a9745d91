"""A person's browser without a screen: pages as text and forms, a cookie jar, and forms sent as browsers send them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx2
from starlette.types import ASGIApp

from agent_gate.doors.context import ServerContext
from agent_gate.hosts.server import build_app
from agent_gate.model.approval import Question
from agent_gate.model.call import CallRequest
from agent_gate.model.outcome import Status
from agent_gate.model.tool import Json
from tests.gates import ASK_ALL
from tests.servers import ANNA_TOKEN, a_context

SITE = "http://127.0.0.1"
_VOID = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
)
_BLOCKS = frozenset({"dd", "div", "dt", "h1", "h2", "h3", "li", "p", "pre", "section", "td", "th", "tr"})


@dataclass
class Form:
    action: str
    method: str
    fields: dict[str, str] = field(default_factory=dict)


class Page(HTMLParser):
    """What a browser would make of a page: its text, its elements, its forms."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.forms: list[Form] = []
        self._open: list[str] = []
        self._texts: list[str] = []
        self.source = text
        self.feed(text)
        self.close()
        self.text = "".join(self._texts)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        self.elements.append((tag, attributes))
        if tag in _BLOCKS:
            self._texts.append("\n")
        if tag == "form":
            self.forms.append(Form(attributes.get("action", ""), attributes.get("method", "get")))
        elif tag == "input" and self.forms and "form" in self._open:
            self.forms[-1].fields[attributes.get("name", "")] = attributes.get("value", "")
        if tag not in _VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self._open:
            while self._open.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        self._texts.append(data)

    def form(self, action_end: str) -> Form:
        [form] = [form for form in self.forms if form.action.endswith(action_end)]
        return form

    def has_form(self, action_end: str) -> bool:
        return any(form.action.endswith(action_end) for form in self.forms)


class Visitor:
    """One browser at the console."""

    def __init__(self, context: ServerContext, app: ASGIApp, client: httpx2.AsyncClient) -> None:
        self.context, self.app, self.client = context, app, client

    async def sign_in(self, token: str = ANNA_TOKEN) -> httpx2.Response:
        return await self.client.post("/console/sign-in", data={"token": token})

    async def see(self, path: str = "/console", status: int = 200) -> Page:
        answer = await self.client.get(path)
        assert answer.status_code == status, (answer.status_code, answer.text[:500])
        return Page(answer.text)

    async def send(self, page: Page, action_end: str, **fields: str) -> httpx2.Response:
        """A form of a page, filled in."""
        form = page.form(action_end)
        assert form.method == "post"
        return await self.client.post(form.action, data={**form.fields, **fields})

    async def do(self, page: Page, action_end: str, **fields: str) -> Page:
        """The page that one gets to by sending a form."""
        answer = await self.send(page, action_end, **fields)
        if answer.status_code == 303:
            answer = await self.client.get(answer.headers["location"])
        assert answer.status_code == 200, (answer.status_code, answer.text[:500])
        return Page(answer.text)

    def cookie(self) -> str:
        [cookie] = self.client.cookies.values()
        return cookie


@asynccontextmanager
async def another(context: ServerContext, app: ASGIApp, token: str | None = ANNA_TOKEN) -> AsyncIterator[Visitor]:
    """One more browser at the same server, signed in unless there is no token."""
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url=SITE) as client:
        visitor = Visitor(context, app, client)
        if token is not None:
            answer = await visitor.sign_in(token)
            assert answer.status_code == 303, answer.text
        yield visitor


@asynccontextmanager
async def a_visitor(
    directory: Path, policy: Any = ASK_ALL, *tools: Any, token: str | None = ANNA_TOKEN, **options: Any
) -> AsyncIterator[Visitor]:
    async with (
        a_context(directory, policy, *tools, **options) as context,
        another(context, build_app(context), token) as visitor,
    ):
        yield visitor


async def asked(
    context: ServerContext, tool: str, args: dict[str, Json] | None = None, agent: str = "bot", **options: Any
) -> Question:
    """A call of an agent that is held, and the question about it."""
    request = CallRequest(context.identities.agents[agent], tool, args or {}, wait=False, **options)
    outcome = await context.gate.submit(request)
    assert outcome.status is Status.PENDING_APPROVAL, outcome
    found = await context.gate.ledger.question(outcome.call_id)
    assert found is not None
    return found[0]

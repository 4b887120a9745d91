"""Approvals on phones, through a real Home Assistant: what it hands on, and what a phone's answer looks like there."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from agent_gate.config import HomeApproverConfig, HomeAssistantConfig, ServicesConfig
from agent_gate.doors.messengers.messenger import Messenger
from agent_gate.doors.messengers.phones.adapter import PhonesAdapter
from agent_gate.model.call import CallRequest
from tests.gates import ASK_ALL, QUICK_SUMMARY, entries, sender, until
from tests.real.homes import RealHome
from tests.servers import a_config, a_context, listening

TEXT = "{{ 6 * 7 }} {% if x %} {# c #} <b>bold</b>"
"""What Home Assistant 2024.3 renders where it finds it, and what the Android app reads as markup."""


@dataclass
class Phone:
    """A companion app, as far as Home Assistant can tell."""

    home: RealHome
    webhook_id: str = ""
    pushed: list[dict[str, Any]] = field(default_factory=list)

    async def take(self, request: Request) -> JSONResponse:
        self.pushed.append(await request.json())
        return JSONResponse({}, 201)

    async def sign_in(self, name: str, token: str, push_url: str) -> None:
        app = {"app_id": "test", "app_name": "Test", "app_version": "1", "os_name": "Test", "os_version": "1"}
        device = {"device_id": name, "device_name": name, "manufacturer": "Test", "model": "Test"}
        data = {"app_data": {"push_token": "p", "push_url": push_url}, "supports_encryption": False}
        answer = await self._post("/api/mobile_app/registrations", {**app, **device, **data}, token)
        self.webhook_id = answer.json()["webhook_id"]

    async def press(self, action: str) -> None:
        event = {"event_type": "mobile_app_notification_action", "event_data": {"action": action}}
        await self._post(f"/api/webhook/{self.webhook_id}", {"type": "fire_event", "data": event})

    async def _post(self, path: str, body: Any, token: str = "") -> httpx2.Response:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with httpx2.AsyncClient(base_url=self.home.url, trust_env=False, timeout=30) as client:
            answer = await client.post(path, json=body, headers=headers)
        assert answer.is_success, answer.text
        return answer


@asynccontextmanager
async def a_phone(home: RealHome, name: str, token: str) -> AsyncIterator[Phone]:
    phone = Phone(home)
    app = Starlette(routes=[Route("/push", phone.take, methods=["POST"])])
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/push"
        async with listening(app, listener):
            await phone.sign_in(name, token, url)
            yield phone


def user_id(home: RealHome, name: str) -> str:
    return str(json.loads((home.directory / "tokens.json").read_text())[name]["user_id"])


async def test_a_question_reaches_the_phone_as_it_is_and_the_phones_user_alone_answers_it(
    tmp_path: Path, real_home: RealHome
) -> None:
    acts: list[str] = []
    async with (
        a_phone(real_home, "anna", real_home.limited_token) as annas,
        a_phone(real_home, "other", real_home.readonly_token) as others,
    ):
        phone = HomeApproverConfig("anna", "notify.mobile_app_anna", user_id(real_home, "limited"))
        settings = HomeAssistantConfig(real_home.url, real_home.token, approvals=(phone,))
        config, approvals = a_config(services=ServicesConfig(settings)), Messenger(PhonesAdapter(settings))
        async with a_context(
            tmp_path,
            ASK_ALL,
            sender(acts),
            config=config,
            people=approvals,
            home_assistant=settings,
            gate_bounds=QUICK_SUMMARY,
        ) as context:
            approvals.attach(context)
            await approvals.start()
            request = CallRequest(context.identities.agents["bot"], "mail.send", {"text": TEXT}, door="websocket")
            call = asyncio.create_task(context.gate.submit(request))
            await until(lambda: annas.pushed)
            shown = annas.pushed[0]
            assert (
                "│ text: ⟨U+007B⟩{ 6 * 7 }} ⟨U+007B⟩% if x %} ⟨U+007B⟩# c #} ⟨U+003C⟩b>bold⟨U+003C⟩/b>"
                in shown["message"]
            )
            assert shown["title"] == "Allow mail.send?"
            allow = next(one["action"] for one in shown["data"]["actions"] if one["title"] == "Allow")
            await others.press(allow)
            await until(
                lambda: [one for row in entries(context.gate, "door") for one in row["body"].get("refused", ())]
            )
            assert acts == []
            await annas.press(allow)
            assert (await call).ok
            await until(lambda: annas.pushed[-1]["message"] == "clear_notification")
            assert annas.pushed[-1]["data"] == {"tag": shown["data"]["tag"]}
            assert others.pushed == []
            await approvals.close()
    assert acts == [TEXT]

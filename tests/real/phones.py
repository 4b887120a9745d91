"""A companion app as Home Assistant knows it: registered, sent notifications by a push service, heard by a webhook."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2

from tests.gates import PATIENCE_S, soon
from tests.real.homes import RealHome

_SENT = {"successful": 1, "errors": 0, "maximum": 500, "remaining": 499, "resetsAt": "2096-01-01T00:00:00.000Z"}


@dataclass
class RealPhone:
    service: str
    """Without its domain, such as `mobile_app_pixel_ab12`."""
    pushed: asyncio.Queue[dict[str, Any]]
    _webhook_url: str

    async def shown(self) -> dict[str, Any]:
        """What it shows next: message, title and data."""
        return await soon(self.pushed.get())

    async def press(self, action: str, **fields: Any) -> None:
        """As the app tells it: an event with what the notification held."""
        event = {"event_type": "mobile_app_notification_action", "event_data": {"action": action, **fields}}
        async with httpx2.AsyncClient(trust_env=False, timeout=PATIENCE_S) as app:
            answer = await app.post(self._webhook_url, json={"type": "fire_event", "data": event})
            assert answer.status_code == 200, answer.text


@asynccontextmanager
async def a_real_phone(home: RealHome, token: str = "") -> AsyncIterator[RealPhone]:
    """Of the user whom the token belongs to; forgotten at the end."""
    pushed: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def push(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = next(line.split(":")[1] for line in head.split("\r\n") if line.startswith("content-length:"))
        pushed.put_nowait(json.loads(await reader.readexactly(int(length))))
        answer = json.dumps({"rateLimits": _SENT}).encode()
        begin = "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: "
        writer.write(f"{begin}{len(answer)}\r\n\r\n".encode() + answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(push, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/push"
    async with server, httpx2.AsyncClient(base_url=home.url, trust_env=False, timeout=PATIENCE_S) as client:
        headers = {"Authorization": f"Bearer {token or home.token}"}
        name = f"Pixel {secrets.token_hex(4)}"
        answer = await client.post("/api/mobile_app/registrations", json=_registration(name, url), headers=headers)
        assert answer.status_code == 201, answer.text
        webhook_id = answer.json()["webhook_id"]
        try:
            service = f"mobile_app_{name.lower().replace(' ', '_')}"
            yield RealPhone(service, pushed, f"{home.url}/api/webhook/{webhook_id}")
        finally:
            await _forgotten(client, name, home.token)


def _registration(name: str, push_url: str) -> dict[str, Any]:
    return {
        "device_id": secrets.token_hex(8),
        "app_id": "io.homeassistant.companion.android",
        "app_name": "Home Assistant",
        "app_version": "2024.3",
        "device_name": name,
        "manufacturer": "Google",
        "model": "Pixel 8",
        "os_name": "Android",
        "os_version": "14",
        "supports_encryption": False,
        "app_data": {"push_token": secrets.token_hex(8), "push_url": push_url},
    }


async def _forgotten(client: httpx2.AsyncClient, name: str, token: str) -> None:
    headers = {"Authorization": f"Bearer {token}"}
    listed = await client.get("/api/config/config_entries/entry", headers=headers)
    for entry in listed.json():
        if entry["domain"] == "mobile_app" and entry["title"] == name:
            await client.delete(f"/api/config/config_entries/entry/{entry['entry_id']}", headers=headers)

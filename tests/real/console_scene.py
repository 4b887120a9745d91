"""A household and an office that ask for things: what the browser tests look at, and the pictures show."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent_gate import tool
from agent_gate.config import AgentConfig, GatewayConfig, TLSConfig
from agent_gate.model.call import CallRequest
from agent_gate.model.outcome import Outcome
from agent_gate.model.tool import Json
from agent_gate.system.clock import SystemClock
from tests.gates import projects
from tests.servers import Served, a_config, a_server

POLICY: dict[str, Any] = {
    "rules": [
        {"pattern": "state.set(/kitchen*", "action": "allow"},
        {"pattern": "mail.send*", "action": "ask", "description": "mail leaves the house"},
        {"pattern": "fs.write*", "action": "ask", "description": "files are changed by people's leave"},
        {"pattern": "door.open*", "action": "deny", "description": "doors stay shut"},
    ],
    "tools": {"fs.write": {"allow_paths": ["./**"]}, "fs.read": {"allow_paths": ["./**"]}},
    "approvals": [{"min_cost": 50, "approver_role": "admin", "approvers_required": 2}],
}
NOTES = "# Notes\n\n- buy milk\n- call Ben about the minutes\n- water the plants\n"

LETTER = """Dear Ben,

attached are the minutes of Tuesday's meeting. The next one is on the 24th, at ten.

Kind regards
"""


@tool("mail.send", effect="write", risk="high", cost=5, sensitive=["to"], unsigned=["text"])
async def send(to: str, subject: str = "", text: str = "") -> dict[str, str]:
    return {"sent": to}


@tool("pay.invoice", effect="write", risk="high", cost=120, sensitive=["amount"])
async def pay(invoice: str, amount: float) -> dict[str, float]:
    return {"paid": amount}


@tool("door.open", effect="write", risk="high", cost=1)
async def open_door(door: str) -> None: ...


@asynccontextmanager
async def a_scene(directory: Path, **options: Any) -> AsyncIterator[Served]:
    work = directory / "work"
    work.mkdir()
    (work / "notes.md").write_text(NOTES)
    agents = (
        AgentConfig("token-of-the-kitchen-0123456789", "kitchen-bot", projects=("home",), owner="carol"),
        AgentConfig("token-of-the-office-0123456789ab", "mail-bot", roles=("admin",)),
    )
    gateway = GatewayConfig("127.0.0.1", 0, TLSConfig("cert.pem", "key.pem") if "tls" in options else None)
    config = replace(a_config(), agents=agents, gateway=gateway)
    options = {"clock": SystemClock(), "working_dir": work, **options}
    async with a_server(directory, POLICY, send, pay, open_door, config=config, **options) as server:
        await projects(server.gate).create(
            "home", {"heating": {"mode": "auto", "target": 20}, "kitchen": {"light": "off"}}
        )
        yield server


async def ask(server: Served, agent: str, tool_name: str, args: dict[str, Json], project: str = "default") -> Outcome:
    request = CallRequest(server.agent(agent), tool_name, args, project, wait=False)
    return await server.gate.submit(request)


async def ask_for_mail(server: Served, subject: str = "Minutes of Tuesday") -> Outcome:
    args: dict[str, Json] = {"to": "ben@example.com", "subject": subject, "text": LETTER}
    return await ask(server, "mail-bot", "mail.send", args)


async def ask_for_warmth(server: Served) -> Outcome:
    patch = [
        {"op": "replace", "path": "/heating/target", "value": 23},
        {"op": "add", "path": "/heating/until", "value": "22:00"},
    ]
    return await ask(server, "kitchen-bot", "state.patch", {"patch": patch}, "home")


async def ask_for_money(server: Served) -> Outcome:
    return await ask(server, "mail-bot", "pay.invoice", {"invoice": "2026-1183", "amount": 1240.5})


async def ask_for_a_note(server: Served) -> Outcome:
    content = NOTES.replace("- buy milk\n", "- buy milk and bread\n") + "- book the train\n"
    return await ask(server, "mail-bot", "fs.write", {"path": "notes.md", "content": content})


async def live_a_morning(server: Served) -> None:
    """Calls that have ended, for the pages that look back."""
    for light in ("on", "dim", "off"):
        await ask(server, "kitchen-bot", "state.set", {"path": "/kitchen/light", "value": light}, "home")
    await ask(server, "kitchen-bot", "door.open", {"door": "front"}, "home")
    await ask(server, "kitchen-bot", "lamp.blink", {"times": 3}, "home")

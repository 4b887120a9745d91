"""`agent-gate serve` with approvals at home, as a user runs it: asked, killed, started again, answered."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import httpx2

from agent_gate.client import GateClient
from agent_gate.simulated_home import Running
from agent_gate.simulated_home.notifications import Notification
from tests.bot_api import CHAT_ID, TOKEN, BotApi
from tests.chats import ANNA_ID
from tests.gates import soon, until
from tests.phones import PIXEL, action_of
from tests.servers import ANNA_TOKEN, BOT_TOKEN, CONFIG, a_process

POLICY = {"rules": [{"pattern": "state.get*", "action": "allow"}, {"pattern": "state.set*", "action": "ask"}]}


def config(running: Running, more: str = "") -> str:
    approvals = f"[{{approver: anna, notify: notify.{PIXEL}, user_id: '{running.home.owner.id}'}}]"
    home = f'{{url: "{running.url}", token: "{running.token}", approvals: {approvals}}}'
    return f"{CONFIG}\nservices: {{homeassistant: {home}}}\n{more}"


async def test_a_question_outlives_kill_9_with_its_notification_and_is_performed_once(
    tmp_path: Path, running: Running
) -> None:
    async with a_process(tmp_path, policy=POLICY, config=config(running)) as server:
        url = (await server.told("serving"))["url"]
        async with GateClient(url, BOT_TOKEN) as bot:
            asked = asyncio.create_task(bot.call("state.set", path="/x", value=1, request_id="r"))
            shown = await _asked(running)
            await until(lambda: _kept(tmp_path))
            server.signal(signal.SIGKILL)
            await soon(server.process.wait())
            asked.cancel()
    async with a_process(tmp_path) as server:
        told = await server.told("serving")
        assert told["taken_over"] == 1
        await _ready(told["url"], 200)
        running.home.act_on_notification(action_of(shown, "Allow"))
        await until(lambda: running.home.notifications[-1].message == "clear_notification")
        async with GateClient(told["url"], BOT_TOKEN) as bot:
            assert (await soon(bot.call("state.set", path="/x", value=1, request_id="r"))).ok
            assert (await bot.state()).data == {"x": 1}
        server.signal(signal.SIGTERM)
        code, errors = await server.ended()
    assert code == 0
    assert running.token not in errors + str(server.said)


async def test_readiness_tells_that_the_phones_cannot_be_reached(tmp_path: Path, running: Running) -> None:
    async with a_process(tmp_path, policy=POLICY, config=config(running)) as server:
        url = (await server.told("serving"))["url"]
        assert (await _ready(url, 200))["checks"]["home_assistant approvals"] == "ok"
        running.home.restart(hold=True)
        checks = (await _ready(url, 503))["checks"]
        assert checks["home_assistant approvals"].startswith("failing: home assistant ")


async def test_people_are_asked_in_telegram_and_at_home_and_one_answer_ends_it_at_both(
    tmp_path: Path, running: Running
) -> None:
    async with BotApi().serving() as api:
        telegram = f'{{token: "{TOKEN}", chat_id: {CHAT_ID}, allowed_users: [{ANNA_ID}], api_base_url: "{api.url}"}}'
        both = config(running, f"messenger: {{type: telegram, telegram: {telegram}}}\n")
        async with a_process(tmp_path, policy=POLICY, config=both) as server:
            url = (await server.told("serving"))["url"]
            async with GateClient(url, BOT_TOKEN) as bot:
                asked = asyncio.create_task(bot.call("state.set", path="/x", value=1))
                shown, message = await _asked(running), await api.message("state.set(/x")
                running.home.act_on_notification(action_of(shown, "Allow"))
                assert (await soon(asked)).ok
                await api.until(lambda: "Allowed by anna" in api.messages[message.message_id].text)
                asked = asyncio.create_task(bot.call("state.set", path="/y", value=1))
                message = await api.message("state.set(/y")
                await _asked(running, "/y")
                await api.notice(await api.press(message, "Allow", user_id=ANNA_ID))
                assert (await soon(asked)).ok
                await until(lambda: running.home.notifications[-1].message == "clear_notification")


async def _asked(running: Running, text: str = "/x") -> Notification:
    await until(lambda: [one for one in running.home.notifications if text in one.message])
    return next(one for one in running.home.notifications if text in one.message)


async def _ready(url: str, status: int) -> dict[str, dict[str, str]]:
    headers = {"Authorization": f"Bearer {ANNA_TOKEN}"}
    async with httpx2.AsyncClient(base_url=url, headers=headers, trust_env=False) as client, asyncio.timeout(60):
        while (answer := await client.get("/readyz")).status_code != status:  # noqa: ASYNC110 -- another process
            await asyncio.sleep(0.05)
    found: dict[str, dict[str, str]] = answer.json()
    return found


def _kept(directory: Path) -> bool:
    """Whether the server has noted where its question is shown."""
    with closing(sqlite3.connect(f"file:{directory / 'agent-gate.db'}?mode=ro", uri=True)) as connection:
        return bool(connection.execute("SELECT 1 FROM question_messages").fetchone())

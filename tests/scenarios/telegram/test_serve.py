"""`agent-gate serve` with Telegram, as a user runs it: asked, killed, started again, answered."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import httpx2

from agent_gate.client import GateClient
from tests.bot_api import CHAT_ID, TOKEN, BotApi
from tests.chats import ANNA_ID
from tests.gates import soon, until
from tests.servers import ANNA_TOKEN, BOT_TOKEN, CONFIG, a_process

POLICY = {"rules": [{"pattern": "state.get*", "action": "allow"}, {"pattern": "state.set*", "action": "ask"}]}


def config(api: BotApi) -> str:
    anna = CONFIG.replace("{id: anna,", f"{{id: anna, telegram_user_id: {ANNA_ID},")
    telegram = f'{{token: "{TOKEN}", chat_id: {CHAT_ID}, allowed_users: [{ANNA_ID}], api_base_url: "{api.url}"}}'
    return f"{anna}\nmessenger: {{type: telegram, telegram: {telegram}}}\n"


async def test_a_question_outlives_kill_9_with_its_message_and_is_performed_once(tmp_path: Path) -> None:
    async with BotApi().serving() as api:
        async with a_process(tmp_path, policy=POLICY, config=config(api)) as server:
            url = (await server.told("serving"))["url"]
            async with GateClient(url, BOT_TOKEN) as bot:
                asked = asyncio.create_task(bot.call("state.set", path="/x", value=1, request_id="r"))
                message = await api.message("state.set(/x")
                await until(lambda: _kept(tmp_path))
                server.signal(signal.SIGKILL)
                await soon(server.process.wait())
                asked.cancel()
        async with a_process(tmp_path) as server:
            told = await server.told("serving")
            assert told["taken_over"] == 1
            await api.notice(await api.press(message, "Allow", user_id=ANNA_ID))
            await api.until(lambda: "Outcome: success" in api.messages[message.message_id].text)
            async with GateClient(told["url"], BOT_TOKEN) as bot:
                assert (await soon(bot.call("state.set", path="/x", value=1, request_id="r"))).ok
                assert (await bot.state()).data == {"x": 1}
            server.signal(signal.SIGTERM)
            code, errors = await server.ended()
    assert code == 0
    assert TOKEN.partition(":")[2] not in errors + str(server.said)
    assert api.called("sendMessage") == 1


async def test_readiness_tells_that_telegram_is_away_and_back(tmp_path: Path) -> None:
    async with BotApi().serving() as api, a_process(tmp_path, policy=POLICY, config=config(api)) as server:
        url = (await server.told("serving"))["url"]
        await _ready(url, 200)
        await api.go_down()
        await _ready(url, 503)
        api.is_down = False
        await _ready(url, 200)


async def _ready(url: str, status: int) -> None:
    headers = {"Authorization": f"Bearer {ANNA_TOKEN}"}
    async with httpx2.AsyncClient(base_url=url, headers=headers, trust_env=False) as client, asyncio.timeout(60):
        while (await client.get("/readyz")).status_code != status:  # noqa: ASYNC110 -- another process
            await asyncio.sleep(0.05)


def _kept(directory: Path) -> bool:
    """Whether the server has noted where its question is shown."""
    with closing(sqlite3.connect(f"file:{directory / 'agent-gate.db'}?mode=ro", uri=True)) as connection:
        return bool(connection.execute("SELECT 1 FROM question_messages").fetchone())

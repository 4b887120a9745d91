"""One life of a gate that asks in Telegram; also as a process of its own, which can be killed while it waits."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agent_gate.config import (
    AgentConfig,
    ApproverConfig,
    Config,
    GatewayConfig,
    MessengerConfig,
    ServicesConfig,
    StorageConfig,
    TelegramConfig,
)
from agent_gate.model.call import CallRequest
from tests.bot_api import CHAT_ID, TOKEN, BotApi
from tests.chats import Chat, a_chat
from tests.gates import NOON, HandClock


@dataclass(frozen=True)
class Plan:
    """What a case says of the gate, its people and the agent."""

    root: str
    url: str
    approvers: list[str]
    agent: str = "agent:alpha"
    owner: str = ""
    timeout_s: float = 900.0
    approvers_required: int = 1
    started_s: float = 0.0
    """When this life begins, in the time of the case."""

    def config(self) -> Config:
        people = tuple(ApproverConfig(name, telegram_user_id=user_id(name)) for name in self.approvers)
        telegram = TelegramConfig(TOKEN, CHAT_ID, [user_id(name) for name in self.approvers], self.url)
        agent = AgentConfig("token-of-the-agent", self.agent, owner=self.owner)
        return Config(
            gateway=GatewayConfig("127.0.0.1", 0),
            agent=None,
            messenger=MessengerConfig("telegram", telegram),
            services=ServicesConfig(),
            storage=StorageConfig(),
            agents=(agent,),
            approvers=people,
        )

    def policy(self) -> Mapping[str, Any]:
        policy: dict[str, Any] = {
            "version": 1,
            "rules": [{"pattern": "*", "action": "ask"}],
            "tools": {"fs.write": {"allow_paths": [f"{self.root}/**"], "allow_hidden": True}},
        }
        if self.approvers_required > 1:
            policy["approvals"] = [{"min_cost": 0, "approvers_required": self.approvers_required}]
        return policy


@dataclass
class Life:
    chat: Chat
    clock: HandClock

    async def request(self, tool: str, args: Mapping[str, Any]) -> str:
        (agent,) = self.chat.context.identities.agents.values()
        outcome = await self.chat.gate.submit(CallRequest(agent, tool, args, wait=False, door="websocket"))
        return outcome.call_id

    async def move(self, seconds: float) -> None:
        """To a moment in the time of the case."""
        self.clock.advance(max(0.0, seconds - self.clock.monotonic()))


@asynccontextmanager
async def living(plan: Plan, api: BotApi) -> AsyncIterator[Life]:
    clock = HandClock()
    clock.advance(plan.started_s - clock.monotonic())
    clock.set(NOON + plan.started_s)
    folder = Path(plan.root).parent / f"{Path(plan.root).name}-gate"
    folder.mkdir(exist_ok=True)
    async with a_chat(
        folder, api, policy=plan.policy(), clock=clock, config=plan.config(), approval_timeout_s=plan.timeout_s,
        working_dir=plan.root,
    ) as chat:  # fmt: skip
        yield Life(chat, clock)


def ledger_of(root: Path) -> Path:
    return root.parent / f"{root.name}-gate" / "gate.db"


def user_id(name: str) -> int:
    """`tg:1001` is Telegram's user 1001."""
    return int(name.partition(":")[2])


class Doomed:
    """The same in a process of its own, until it is killed."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, plan: Plan) -> Doomed:
        return cls(
            await asyncio.create_subprocess_exec(
                sys.executable, "-m", __name__, json.dumps(asdict(plan)),
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            )
        )  # fmt: skip

    async def request(self, tool: str, args: Mapping[str, Any]) -> str:
        return await self._say({"tool": tool, "args": args})

    async def move(self, seconds: float) -> None:
        await self._say({"move": seconds})

    async def kill(self) -> None:
        self._process.kill()
        await self._process.wait()

    async def _say(self, command: Mapping[str, Any]) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(command).encode() + b"\n")
        return json.loads(await self._process.stdout.readline())  # type: ignore[no-any-return]  # a call id, or ""


async def main() -> None:
    """Does what it is told, one line of JSON each, for as long as it is let."""
    plan = Plan(**json.loads(sys.argv[1]))
    async with living(plan, BotApi()) as life:
        while line := await asyncio.to_thread(sys.stdin.readline):
            command = json.loads(line)
            if "move" in command:
                await life.move(command["move"])
            answer = await life.request(command["tool"], command["args"]) if "tool" in command else ""
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main())

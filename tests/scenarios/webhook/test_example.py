"""The receiver of the guide, run against a real server."""

from __future__ import annotations

import asyncio
import re
import socket
import sys
from pathlib import Path

import yaml

from agent_gate.config import load_config
from agent_gate.system.clock import SystemClock
from tests.gates import sender, until
from tests.webhooks import SECRET, Receiver, a_hook, webhook_config

ROOT = Path(__file__).parents[3]
GUIDE = (ROOT / "docs/guides/webhook-approvals.md").read_text()


async def test_the_example_shows_a_question_and_sends_the_answer_back(tmp_path: Path, acts: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = webhook_config(f"http://127.0.0.1:{port}/")
    clock = SystemClock()
    async with a_hook(tmp_path, Receiver(url=""), sender(acts), config=config, clock=clock) as hooked:  # type: ignore[arg-type]
        environment = {"WEBHOOK_SECRET": SECRET, "GATE_URL": hooked.served.url, "APPROVER": "anna"}
        example = await asyncio.create_subprocess_exec(
            sys.executable,
            str(ROOT / "examples/webhook/receiver.py"),
            str(port),
            env=environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            assert example.stdin is not None
            assert example.stdout is not None
            example.stdin.write(b"allow\n")
            await hooked.call({"text": "hello"})
            await until(lambda: acts == ["hello"])
            said = b""
            while b"question.ended" not in said:
                said += await asyncio.wait_for(example.stdout.readline(), 20)
            assert b"hello" in said
        finally:
            example.kill()
            await example.wait()


def test_what_the_guide_says_to_add_to_the_configuration_is_valid(tmp_path: Path) -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", GUIDE, flags=re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        text = (
            re.sub(r"\$\{\w*SECRET\w*\}", SECRET, block).replace("${TELEGRAM_TOKEN}", "t").replace("${ANNA_TOKEN}", "a")
        )
        base = {"gateway": {"host": "127.0.0.1", "port": 1}, "agent": {"token": "x"}}
        path = tmp_path / "config.yaml"
        path.write_text(yaml.safe_dump({**base, **yaml.safe_load(text)}))
        loaded = load_config(path)
        assert any(one.webhook for one in loaded.every_messenger)


def test_the_guide_shows_the_example_that_is_there() -> None:
    assert "examples/webhook/receiver.py" in GUIDE

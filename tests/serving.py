"""Servers in processes of their own, as a person starts them: `agent-gate serve`, its agents and its approvers."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import httpx2
import yaml

READY_S = 30


@dataclass(frozen=True)
class Site:
    """A directory with everything that a server needs."""

    directory: Path
    tokens: dict[str, str]
    """Of each agent and of the approver `anna`."""

    @property
    def db(self) -> Path:
        return self.directory / "gate.db"


def a_site(directory: Path, policy: Any, agents: int = 1, **config: Any) -> Site:
    tokens = {f"bot-{number}": f"token-of-bot-{number}-0123456789abcdef" for number in range(agents)}
    init = [sys.executable, "-m", "agent_gate", "init", "--db", "gate.db", "--json"]
    subprocess.run(init, cwd=directory, check=True, stdout=subprocess.DEVNULL)
    told = {
        "gateway": {"host": "127.0.0.1", "port": 0},
        "agents": [{"id": name, "token": token} for name, token in tokens.items()],
        "approvers": [{"id": "anna", "token": "token-of-anna-0123456789abcdef", "roles": ["admin"]}],
        "storage": {"type": "sqlite", "path": str(directory / "gate.db")},
        "rate_limit": {"max_pending_approvals": 1_000, "max_requests_per_minute": 1_000_000},
        **config,
    }
    (directory / "config.yaml").write_text(yaml.safe_dump(told))
    (directory / "config.yaml").chmod(0o600)
    (directory / "policy.yaml").write_text(yaml.safe_dump(policy))
    return Site(directory, {**tokens, "anna": "token-of-anna-0123456789abcdef"})


class Running:
    """A server that was started; killed when the block ends, if it has not ended."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.process = subprocess.Popen(
            [sys.executable, "-m", "agent_gate", "serve", "--json"],
            cwd=site.directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(self.process.communicate(timeout=READY_S)[1])
        self.told = json.loads(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def url(self) -> str:
        return str(self.told["url"])

    @property
    def ws_url(self) -> str:
        return str(self.told["agents"])

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(timeout=READY_S)

    def people(self) -> httpx2.AsyncClient:
        """The HTTP API as `anna`."""
        headers = {"Authorization": f"Bearer {self.site.tokens['anna']}"}
        return httpx2.AsyncClient(base_url=self.url, headers=headers, timeout=READY_S)

    def memory_bytes(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) * 1024

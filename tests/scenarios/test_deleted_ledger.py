"""Somebody deletes or replaces the ledger under a running server: no call is a success, and there is a way out."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agent_gate.history.verify import verify
from tests.gates import ALLOW_ALL, until
from tests.serving import Running, Site, a_site

WAY_OUT = "`agent-gate init --force`"


def say(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "agent_gate", *words],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


class Client:
    """An agent that calls, and a person who looks."""

    def __init__(self, server: Running) -> None:
        self._url, self._tokens = server.url, server.site.tokens

    def remember(self, value: int) -> dict[str, Any]:
        call = {"tool": "state.set", "args": {"path": "/n", "value": value}}
        answer: dict[str, Any] = httpx2.post(
            f"{self._url}/api/v1/calls", json=call, headers=self._as("bot-0"), timeout=30
        ).json()
        return answer

    def readiness(self) -> int:
        return httpx2.get(f"{self._url}/readyz", headers=self._as("anna"), timeout=30).status_code

    def _as(self, who: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._tokens[who]}"}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return a_site(tmp_path, ALLOW_ALL)


async def test_a_server_whose_ledger_is_deleted_says_so_and_goes_on_after_init_force(site: Site) -> None:
    config, policy = ((site.directory / name).read_bytes() for name in ("config.yaml", "policy.yaml"))
    with Running(site) as server:
        agent = Client(server)
        assert agent.remember(1)["status"] == "success"
        site.db.unlink()
        refused = [agent.remember(number) for number in (2, 3)]
        assert [(one["status"], one["error"]["code"]) for one in refused] == [("error", 5002)] * 2
        assert all("gate.db` is gone" in one["error"]["detail"] for one in refused)
        assert all(WAY_OUT in one["error"]["suggestion"] for one in refused)
        await until(lambda: agent.readiness() == 503)
        doctor = say(site.directory, "doctor", "--db", "gate.db", "--json")
        (database,) = [check for check in json.loads(doctor.stdout)["checks"] if check["name"] == "database"]
        assert (doctor.returncode, database["status"], WAY_OUT in database["advice"]) == (3, "fail", True)
        assert say(site.directory, "init", "--db", "gate.db").returncode != 0
        begun = say(site.directory, "init", "--force", "--db", "gate.db", "--json")
        assert begun.returncode == 0, begun.stderr
        kept = [site.directory / path for path in json.loads(begun.stdout)["kept"]]
        again = agent.remember(4)
        assert (again["error"]["code"], "another file" in again["error"]["detail"]) == (5002, True)
        server.process.terminate()
        log = server.process.communicate(timeout=30)[1]
    assert log.count("the ledger cannot be written") == 1
    assert [path.name.split(".")[0] for path in kept] == ["anchor", "wal"]
    assert all(path.stat().st_size for path in kept)
    assert [(site.directory / name).read_bytes() for name in ("config.yaml", "policy.yaml")] == [config, policy]
    with Running(site) as server:
        assert Client(server).remember(5)["status"] == "success"
        assert server.stop() == 0
    assert verify(site.db).ok
    with closing(sqlite3.connect(site.db)) as connection:
        assert connection.execute("SELECT count(*) FROM audit_log").fetchone() == (1,)


async def test_a_ledger_that_was_moved_away_and_back_is_written_again(site: Site) -> None:
    with Running(site) as server:
        agent = Client(server)
        agent.remember(1)
        site.db.rename(site.directory / "elsewhere.db")
        assert agent.remember(2)["error"]["code"] == 5002
        (site.directory / "elsewhere.db").rename(site.db)
        await until(lambda: agent.remember(3)["status"] == "success")
        assert server.stop() == 0
    assert verify(site.db).ok


def test_a_copy_in_the_place_of_the_ledger_is_not_written(site: Site) -> None:
    with Running(site) as server:
        agent = Client(server)
        agent.remember(1)
        shutil.copy(site.db, site.directory / "copy.db")
        (site.directory / "copy.db").rename(site.db)
        before = site.db.read_bytes()
        assert agent.remember(2)["error"]["code"] == 5002
        assert site.db.read_bytes() == before

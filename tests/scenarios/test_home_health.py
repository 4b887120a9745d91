"""Whether the home is there, its version and what the token may do: told by `doctor` and `serve`; and a new token."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agent_gate.client import GateClient
from agent_gate.simulated_home import Running, User, simulated_home
from tests.contract.houses import eventually
from tests.gates import ALLOW_ALL, until
from tests.scenarios.test_cli import run
from tests.scenarios.test_home_assistant import LIGHT, NOWHERE, config_of, readiness
from tests.servers import BOT_TOKEN, a_process

ADMIN = "the token is of `owner`, an administrator, and may do everything"


@pytest.fixture
async def running() -> AsyncIterator[Running]:
    async with simulated_home() as found:
        yield found


async def examined(directory: Path, config: str, **environment: str) -> tuple[int, dict[str, str]]:
    (directory / "config.yaml").write_text(config)
    done = await asyncio.to_thread(run, directory, "doctor", "--json", **environment)
    checks = json.loads(done.stdout)["checks"]
    [row] = [row for row in checks if row["name"] == "home assistant"]
    return done.returncode, row


async def test_doctor_says_that_the_home_is_there_its_version_and_what_the_token_may_do(
    tmp_path: Path, running: Running
) -> None:
    _, row = await examined(tmp_path, config_of(running.url, running.token))
    assert (row["status"], row["found"]) == ("ok", f"Home Assistant 2024.3.3 at {running.url}; {ADMIN}")
    _, row = await examined(tmp_path, config_of(running.url, running.limited_token))
    assert row["status"] == "ok"
    assert "no administrator: templates, events" in row["found"]


async def test_doctor_finds_the_token_of_the_owner_without_opening_the_ledger_for_work(
    tmp_path: Path, running: Running
) -> None:
    assert run(tmp_path, "init").returncode == 0
    assert run(tmp_path, "owner", "set", "home_assistant_token", stdin=running.token).returncode == 0
    (tmp_path / "config.yaml").unlink()
    before = files(tmp_path)
    _, row = await examined(tmp_path, config_of(running.url))
    assert row["status"] == "ok"
    (tmp_path / "config.yaml").unlink()
    assert files(tmp_path) == before


def files(directory: Path) -> dict[str, bytes]:
    """But for what a reader of SQLite makes beside."""
    found = (path for path in directory.rglob("*") if path.is_file() and not path.name.endswith(("-shm", "-wal")))
    return {str(path): path.read_bytes() for path in found}


async def test_doctor_tells_a_home_that_is_not_there_one_that_starts_and_a_token_that_is_refused(
    tmp_path: Path, running: Running
) -> None:
    _, row = await examined(tmp_path, config_of(NOWHERE, "any-token"))
    assert (row["status"], row["found"]) == ("warn", f"{NOWHERE}: it cannot be reached: connection refused")
    running.home.restart(hold=True)
    await until(lambda: running.home.life.restarts == 1)
    _, row = await examined(tmp_path, config_of(running.url, running.token))
    assert (row["status"], row["found"].endswith("it is still starting")) == ("warn", True)
    running.home.finish_start()
    code, row = await examined(tmp_path, config_of(running.url, "a-token-of-nobody"))
    assert (code, row["status"]) == (3, "fail")
    assert "Invalid access token or password" in row["found"]
    assert "owner set home_assistant_token" in row["advice"]
    code, row = await examined(tmp_path, config_of(running.url), HOME_ASSISTANT_TOKEN="")
    assert (code, row["status"]) == (3, "fail")
    assert "no token for Home Assistant" in row["found"]


async def test_doctor_says_nothing_of_a_home_where_none_is_configured(tmp_path: Path) -> None:
    done = await asyncio.to_thread(run, tmp_path, "doctor", "--json")
    assert "home assistant" not in [row["name"] for row in json.loads(done.stdout)["checks"]]


async def test_serve_says_whether_the_home_is_there_its_version_and_what_the_token_may_do(
    tmp_path: Path, running: Running
) -> None:
    async with a_process(tmp_path, policy=ALLOW_ALL, config=config_of(running.url, running.token)) as server:
        told = await server.told("serving")
        assert told["home"] == {
            "url": running.url,
            "is_there": True,
            "version": "2024.3.3",
            "user": "owner",
            "is_admin": True,
        }


async def test_serve_says_that_the_home_is_not_there(tmp_path: Path) -> None:
    async with a_process(tmp_path, policy=ALLOW_ALL, config=config_of(NOWHERE, "any-token")) as server:
        home = (await server.told("serving"))["home"]
        assert (home["is_there"], home["trouble"]) == (
            False,
            "home assistant cannot be reached: connection refused",
        )


def replaced_by_owner(directory: Path, url: str, token: str) -> None:
    assert run(directory, "owner", "set", "home_assistant_token", stdin=token).returncode == 0
    assert url


def replaced_in_config(directory: Path, url: str, token: str) -> None:
    (directory / "config.yaml").write_text(config_of(url, token))


@pytest.mark.parametrize("replace", [replaced_by_owner, replaced_in_config])
async def test_a_server_whose_token_was_revoked_takes_up_another_without_a_restart(
    tmp_path: Path, running: Running, replace: Any
) -> None:
    new = User("another owner", "admin")
    running.home.users.add(new)
    by_owner = replace is replaced_by_owner
    assert run(tmp_path, "init").returncode == 0
    if by_owner:
        replaced_by_owner(tmp_path, running.url, running.token)
    config = config_of(running.url, "" if by_owner else running.token)
    async with a_process(tmp_path, policy=ALLOW_ALL, config=config) as server:
        url = (await server.told("serving"))["url"]
        running.home.revoke_token(running.token)
        await becomes(url, "failing: home assistant refuses the token")
        await asyncio.to_thread(replace, tmp_path, running.url, new.token)
        await becomes(url, "ok")
        async with GateClient(url, BOT_TOKEN) as bot:
            assert (await bot.call("ha_get_state", entity_id=LIGHT)).data["live"] is True


async def becomes(url: str, state: str) -> None:
    """Until readiness says so of the home."""

    async def is_so() -> bool:
        return (await readiness(url))[1]["service:home_assistant"].startswith(state)

    await eventually(is_so)

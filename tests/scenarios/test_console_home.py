"""What an approver sees of a question about a home: what it reaches, how that is now, and what an undo brings back."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_gate.config import HomeAssistantConfig
from agent_gate.simulated_home import simulated_home
from tests.gates import ALLOW_ALL, ASK_ALL, until
from tests.scenarios.home_gates import ADMIN, call_service
from tests.scenarios.visiting import Page, a_visitor, asked

pytestmark = pytest.mark.anyio


async def test_a_question_about_a_home_says_what_it_reaches_and_how_that_is_now(tmp_path: Path) -> None:
    async with simulated_home() as running:
        settings = HomeAssistantConfig(running.url, running.token)
        async with a_visitor(tmp_path, ASK_ALL, home_assistant=settings) as visitor:
            args = {"domain": "lock", "service": "unlock", "entity_id": "lock.front_door"}
            question = await asked(visitor.context, "ha_call_service", args)
            page = await visitor.see(f"/console?call={question.call_id}")
    assert "It reaches 1 entity: lock.front_door is locked now." in page.text


async def test_a_question_about_an_undo_says_what_would_be_again(tmp_path: Path) -> None:
    approvals = [{"risk": "high", "approver_role": "admin"}]
    policy = {**ALLOW_ALL, "approvals": approvals, "roles": {"operator": {"max_risk": "high"}}}
    async with simulated_home() as running:
        settings = HomeAssistantConfig(running.url, running.token)
        async with a_visitor(tmp_path, policy, home_assistant=settings, agent=ADMIN) as visitor:
            done = await call_service(visitor.context.gate, "lock.unlock", "lock.front_door")
            assert done.ok, done
            question = await asked(visitor.context, "gate.revert", {"call_id": done.call_id})
            page = await visitor.see(f"/console?call={question.call_id}")
    assert "lock.front_door is unlocked now, and would be locked again." in page.text


async def test_the_health_page_says_what_is_wrong_with_a_home(tmp_path: Path) -> None:
    async with simulated_home() as running:
        settings = HomeAssistantConfig(running.url, running.token)
        async with a_visitor(tmp_path, ASK_ALL, home_assistant=settings) as visitor:
            assert "Home assistant ok" in _words(await visitor.see("/console/health"))
            running.home.revoke_token()
            [service] = [one for one in visitor.context.gate.services if one.name == "home_assistant"]
            await until(lambda: "refuses the token" in service.trouble)  # type: ignore[attr-defined]
            page = await visitor.see("/console/health")
    assert "Home assistant failing home assistant refuses the token" in _words(page)


def _words(page: Page) -> str:
    return " ".join(page.text.split())

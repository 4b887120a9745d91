"""The console in a real browser: live, by keys, on a phone, in the dark, for a screen reader, and without a script."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, Route, async_playwright, expect

from agent_gate.model.approval import Approver
from agent_gate.model.outcome import Status
from tests.gates import soon
from tests.real.console_checks import too_wide, unnamed, unreadable
from tests.real.console_scene import (
    a_scene,
    ask,
    ask_for_a_note,
    ask_for_mail,
    ask_for_money,
    ask_for_warmth,
    live_a_morning,
)
from tests.scenarios.certificates import Authority
from tests.servers import ANNA_TOKEN, CAROL_TOKEN, Served

CHROMIUM = Path(os.environ.get("CHROMIUM", "/usr/bin/chromium"))
PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 800}, "is_mobile": True, "has_touch": True}
BOB = Approver("bob", ("operator",))

pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason="chromium is not installed: apt-get install chromium")


@pytest.fixture(scope="module")
async def browser(anyio_backend: str) -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        started = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        await started.close()


@asynccontextmanager
async def a_page(browser: Browser, server: Served, token: str = ANNA_TOKEN, **options: Any) -> AsyncIterator[Page]:
    """Somebody who has signed in; whatever the browser complains of fails the test."""
    complaints: list[str] = []
    async with await browser.new_context(base_url=server.url, **options) as context:
        page = await context.new_page()
        page.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
        await page.goto("/console")
        await page.get_by_label("Your approver token").fill(token)
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_role("heading", name="Inbox")).to_be_visible()
        await page.wait_for_load_state()
        yield page
        assert complaints == []


async def outcome_of(server: Served, call_id: str) -> Status:
    outcome = await soon(server.gate.result(call_id))
    assert outcome is not None
    return outcome.status


async def test_a_question_appears_by_itself_and_is_allowed_by_a_key(browser: Browser, tmp_path: Path) -> None:
    async with a_scene(tmp_path) as server, a_page(browser, server) as page:
        await expect(page.get_by_text("Nothing waits for you")).to_be_visible()
        asked = await ask_for_mail(server)
        heading = page.get_by_role("heading", name="mail-bot wants to call mail.send")
        await expect(heading).to_be_visible()
        await expect(page).to_have_title("(1) Inbox · agent-gate")
        await expect(page.locator("#news")).to_have_text("New question: mail-bot wants to call mail.send. 1 open.")
        await expect(page.locator("#detail .deadline")).to_contain_text("14 min")
        await page.wait_for_timeout(700)  # keys rest for a moment after what is in view has changed
        await page.keyboard.press("a")
        await expect(page.get_by_text("Allowed: mail.send of mail-bot.")).to_be_visible()
        await expect(page.get_by_text("Nothing waits for you")).to_be_visible()
        assert await outcome_of(server, asked.call_id) is Status.SUCCESS


async def test_keys_move_through_the_questions_and_deny(browser: Browser, tmp_path: Path) -> None:
    async with a_scene(tmp_path) as server:
        calls = [await ask_for_mail(server, f"number {number}") for number in range(3)]
        async with a_page(browser, server) as page:
            current = page.locator("#queue a[aria-current]")
            for key, number in (("j", 1), ("j", 2), ("j", 2), ("k", 1)):
                await page.keyboard.press(key)
                await expect(page.locator("#detail")).to_have_attribute("data-call", calls[number].call_id)
                await expect(current).to_have_attribute("data-call", calls[number].call_id)
            await page.keyboard.press("Enter")
            await expect(page.locator("#detail")).to_be_focused()
            await page.keyboard.press("?")
            await expect(page.get_by_role("dialog")).to_be_visible()
            await page.keyboard.press("d")
            await page.keyboard.press("Escape")
            await expect(page.get_by_role("dialog")).to_be_hidden()
            await page.get_by_placeholder("Note for the record").fill("add j k d ?")
            assert [await server.context.approvals.question(call.call_id) is not None for call in calls] == [True] * 3
            await page.get_by_placeholder("Note for the record").press("Enter")
            await page.locator("#detail").focus()
            await page.keyboard.press("d")
            await expect(page.get_by_text("Denied: mail.send of mail-bot.")).to_be_visible()
            await expect(page.locator("#detail")).to_have_attribute("data-call", calls[2].call_id)
        assert await outcome_of(server, calls[1].call_id) is Status.DENIED
        assert len(await server.context.approvals.questions()) == 2


async def test_a_key_that_is_pressed_twice_answers_once(browser: Browser, tmp_path: Path) -> None:
    async with a_scene(tmp_path) as server:
        calls = [await ask_for_mail(server, f"number {number}") for number in range(3)]
        async with a_page(browser, server) as page:
            for _ in range(4):
                await page.keyboard.press("a")
            await expect(page.locator("#detail")).to_have_attribute("data-call", calls[1].call_id)
            for _ in range(4):
                await page.keyboard.press("a")
        assert await outcome_of(server, calls[0].call_id) is Status.SUCCESS
        assert len(await server.context.approvals.questions()) == 2


async def test_a_grant_is_given_with_the_bounds_in_the_form(browser: Browser, tmp_path: Path) -> None:
    async with a_scene(tmp_path) as server:
        await ask_for_mail(server)
        async with a_page(browser, server) as page:
            await page.get_by_label("For how long").select_option("4 hours")
            await page.get_by_label("At most how many times").fill("3")
            await page.get_by_role("button", name="Allow repeatedly").click()
            await expect(page.get_by_text("Allowed for 4 hours, at most 3 times")).to_be_visible()
            await page.get_by_role("link", name="Grants").click()
            await expect(page.get_by_text("3 of 3").or_(page.get_by_text("2 of 3"))).to_be_visible()
            await page.get_by_role("button", name="Revoke").click()
            await expect(page.get_by_text("No grant is in force")).to_be_visible()


async def test_what_another_person_does_shows_at_once_and_a_note_is_kept(browser: Browser, tmp_path: Path) -> None:
    async with a_scene(tmp_path) as server:
        first, second = await ask_for_mail(server), await ask_for_money(server)
        async with a_page(browser, server) as page:
            await page.locator(f"#queue a[data-call='{second.call_id}']").click()
            await expect(page.get_by_text("0 of 2 people agreed")).to_be_visible()
            await page.get_by_placeholder("Note for the record").fill("half written")
            await server.context.approvals.answer(second.call_id, approve=True, by=Approver("carol", ("admin",)))
            await expect(page.get_by_text("1 of 2 people agreed: carol")).to_be_visible()
            await expect(page.get_by_placeholder("Note for the record")).to_have_value("half written")
            await server.context.approvals.answer(first.call_id, approve=False, by=BOB)
            await expect(page.locator("#queue li")).to_have_count(1)
            await server.context.approvals.answer(second.call_id, approve=False, by=Approver("dora", ("admin",)))
            await expect(page.get_by_text("This question")).to_be_visible()
            await expect(page.get_by_role("button", name="Allow once")).to_be_hidden()


async def test_a_deadline_passes_in_view(browser: Browser, tmp_path: Path) -> None:
    async with a_scene(tmp_path, approval_timeout_s=3) as server, a_page(browser, server) as page:
        asked = await ask_for_mail(server)
        await expect(page.locator("#detail .deadline")).to_have_class("deadline soon")
        await expect(page.get_by_role("heading", name="This question")).to_be_visible()
        await expect(page.locator("#queue li")).to_have_count(0)
        assert await outcome_of(server, asked.call_id) is Status.EXPIRED


async def test_a_change_is_shown_before_it_is_allowed(browser: Browser, tmp_path: Path) -> None:
    async with a_scene(tmp_path) as server:
        await ask_for_a_note(server)
        warmth = await ask_for_warmth(server)
        async with a_page(browser, server) as page:
            await expect(page.locator(".diff .removed")).to_have_text("-- buy milk")
            await expect(page.locator(".diff .added").first).to_have_text("+- buy milk and bread")
            await page.keyboard.press("j")
            await expect(page.locator(".steps .removed").filter(has_text="20")).to_be_visible()
            await expect(page.locator(".steps .added").filter(has_text="23")).to_be_visible()
            await page.get_by_role("button", name="Allow once").click()
            await expect(page.get_by_text("Allowed: state.patch of kitchen-bot.")).to_be_visible()
        assert await outcome_of(server, warmth.call_id) is Status.SUCCESS


async def test_a_phone_shows_the_list_then_the_question_and_nothing_is_too_wide(
    browser: Browser, tmp_path: Path
) -> None:
    async with a_scene(tmp_path) as server:
        await live_a_morning(server)
        asked = await ask_for_mail(server)
        await ask(server, "kitchen-bot", "state.set", {"path": "/" + "w" * 400, "value": ["x" * 900]}, "home")
        async with a_page(browser, server, **PHONE) as page:
            assert await too_wide(page) == []
            await expect(page.locator("#detail")).to_be_hidden()
            await page.locator("#queue a").last.tap()
            await expect(page.locator("#detail")).to_be_visible()
            assert await too_wide(page) == []
            await page.get_by_role("link", name="All questions").tap()
            await page.locator(f"#queue a[data-call='{asked.call_id}']").tap()
            await expect(page.get_by_role("button", name="Allow once")).to_be_in_viewport()
            await page.get_by_role("button", name="Allow once").tap()
            await expect(page.get_by_text("Allowed: mail.send of mail-bot.")).to_be_visible()
            for path in (
                "timeline",
                "runs",
                "state/home",
                "check",
                "grants",
                "switch",
                "health",
                f"calls/{asked.call_id}",
            ):
                await page.goto(f"/console/{path}")
                assert await too_wide(page) == [], path
        assert await outcome_of(server, asked.call_id) is Status.SUCCESS


async def test_a_phone_that_shows_the_list_stays_with_it_when_there_is_news(browser: Browser, tmp_path: Path) -> None:
    async with a_scene(tmp_path) as server:
        first = await ask_for_mail(server, "first")
        async with a_page(browser, server, **PHONE) as page:
            await ask_for_mail(server, "second")
            await expect(page.locator("#queue li")).to_have_count(2)
            await server.context.approvals.answer(first.call_id, approve=False, by=BOB)
            await expect(page.locator("#queue li")).to_have_count(1)
            await expect(page.locator("#detail")).to_be_hidden()
            await page.locator("#queue a").tap()
            await expect(page.get_by_role("button", name="Allow once")).to_be_visible()


async def test_keys_answer_nothing_that_is_not_in_view_yet(browser: Browser, tmp_path: Path) -> None:
    async with a_scene(tmp_path) as server:
        calls = [await ask_for_mail(server, f"number {number}") for number in range(3)]
        async with a_page(browser, server) as page:
            held = asyncio.Event()

            async def hold(route: Route) -> None:
                await held.wait()
                await route.continue_()

            await page.route("**/console?call=*", hold)
            await page.keyboard.press("j")
            await page.keyboard.press("j")
            await page.keyboard.press("a")
            await page.keyboard.press("d")
            await expect(page.locator("#queue a[aria-current]")).to_have_attribute("data-call", calls[2].call_id)
            held.set()
            await expect(page.locator("#detail")).to_have_attribute("data-call", calls[2].call_id)
        assert len(await server.context.approvals.questions()) == 3


async def test_a_gate_that_is_gone_is_told(browser: Browser, tmp_path: Path) -> None:
    async with await browser.new_context() as context:
        page = await context.new_page()
        async with a_scene(tmp_path) as server:
            await ask_for_mail(server)
            await page.goto(f"{server.url}/console")
            await page.get_by_label("Your approver token").fill(ANNA_TOKEN)
            await page.get_by_role("button", name="Sign in").click()
            await expect(page.get_by_role("button", name="Allow once")).to_be_visible()
            await expect(page.get_by_text("Not connected")).to_be_hidden()
            server.context.closing.set()
        await expect(page.get_by_text("Not connected")).to_be_visible()
        await page.get_by_role("button", name="Allow once").click()
        await expect(page.locator("#news")).to_have_text("The gate cannot be reached.")
        await expect(page.get_by_role("button", name="Allow once")).to_be_enabled()


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_every_page_has_names_for_everything_and_texts_that_can_be_read(
    browser: Browser, tmp_path: Path, scheme: Any
) -> None:
    async with a_scene(tmp_path) as server:
        await live_a_morning(server)
        asked = await ask_for_money(server)
        calls = [await ask_for_mail(server), await ask_for_warmth(server), await ask_for_a_note(server)]
        odd = await ask(server, "kitchen-bot", "state.set", {"path": "/a\u202eb", "value": "x" * 5_000}, "home")
        await server.context.approvals.answer(calls[0].call_id, approve=True, by=BOB, grant=None)
        async with a_page(browser, server, color_scheme=scheme) as page:
            dark = await page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (dark == "rgb(19, 20, 18)") == (scheme == "dark")
            for path in (
                "", f"?call={asked.call_id}", f"?call={calls[1].call_id}", f"?call={calls[2].call_id}",
                f"?call={odd.call_id}", f"?call={calls[0].call_id}", "/timeline", "/runs",
                "/state", "/state/home", f"/calls/{calls[0].call_id}", f"/calls/{odd.call_id}", "/check", "/grants",
                "/switch", "/health",
            ):  # fmt: skip
                await page.goto(f"/console{path}")
                assert await unnamed(page) == [], path
                assert await unreadable(page) == [], path
        context = await browser.new_context(base_url=server.url, color_scheme=scheme)
        page = await context.new_page()
        await page.goto("/console/sign-in")
        assert (await unnamed(page), await unreadable(page)) == ([], [])
        await context.close()


async def test_focus_is_where_somebody_who_hears_the_page_expects_it(browser: Browser, tmp_path: Path) -> None:
    async with a_scene(tmp_path) as server:
        await ask_for_mail(server, "first")
        await ask_for_mail(server, "second")
        async with a_page(browser, server) as page:
            await page.keyboard.press("Tab")
            await expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
            await page.keyboard.press("Enter")
            await expect(page.locator("#main")).to_be_focused()
            await page.get_by_role("button", name="Deny").focus()
            await page.keyboard.press("Enter")
            await expect(page.get_by_text("Denied: mail.send of mail-bot.")).to_be_visible()
            await expect(page.locator("#detail")).to_be_focused()
            await expect(page.get_by_role("status")).to_contain_text("Denied")
            for role, name in (("navigation", "Console"), ("region", "Inbox"), ("region", "The question in view")):
                await expect(page.get_by_role(role, name=name)).to_be_visible()  # type: ignore[arg-type]


async def test_without_a_script_questions_can_be_answered(browser: Browser, tmp_path: Path) -> None:
    async with a_scene(tmp_path) as server:
        first, second = await ask_for_mail(server, "first"), await ask_for_mail(server, "second")
        async with a_page(browser, server, java_script_enabled=False) as page:
            await page.locator("#queue a").last.click()
            await page.get_by_role("button", name="Deny").click()
            await expect(page.get_by_text("Denied: mail.send of mail-bot.")).to_be_visible()
            await page.get_by_role("button", name="Allow once").click()
            await expect(page.get_by_text("Nothing waits for you")).to_be_visible()
            await page.get_by_role("link", name="Pause…").click()
            await page.get_by_role("button", name="Pause everything").click()
            await expect(page.get_by_text("Resume the gate?")).to_be_visible()
            await page.get_by_role("button", name="Sign out").click()
            await expect(page.get_by_text("You are signed out.")).to_be_visible()
        assert await outcome_of(server, first.call_id) is Status.SUCCESS
        assert await outcome_of(server, second.call_id) is Status.DENIED
        assert await server.context.approvals.paused()


async def test_hostile_text_runs_nothing_and_the_policy_of_the_page_would_stop_it(
    browser: Browser, tmp_path: Path
) -> None:
    hostile = "</pre><script>alert(1)</script><img src=x onerror=alert(1)><svg onload=alert(1)>"
    async with a_scene(tmp_path) as server:
        await ask(server, "mail-bot", "mail.send", {"to": hostile, "subject": hostile, "text": hostile})
        async with a_page(browser, server) as page:
            await expect(page.locator("#detail .arguments pre").first).to_have_text(hostile)
            await page.keyboard.press("j")
            assert await page.locator("#detail script, #detail img, #detail svg").count() == 0
        context = await browser.new_context(base_url=server.url)
        page = await context.new_page()
        await page.goto("/console/sign-in")
        blocked = await page.evaluate(
            """async () => {
              const stopped = [];
              document.addEventListener("securitypolicyviolation", (event) => stopped.push(event.effectiveDirective));
              const attempt = async (act) => { try { await act(); } catch (error) { stopped.push(error.name); } };
              await attempt(() => { document.body.innerHTML = "<b>x</b>"; });
              await attempt(() => fetch("https://evil.test/"));
              await attempt(() => {
                const script = document.createElement("script");
                script.textContent = "window.hurt = 1";
                document.body.append(script);
              });
              await new Promise((done) => setTimeout(done, 100));
              const all = ["connect-src", "require-trusted-types-for", "TypeError"];
              return [window.hurt || 0, ...all.map((name) => stopped.includes(name))];
            }"""
        )
        await context.close()
    assert blocked == [0, True, True, True]


async def test_over_tls_the_cookie_of_this_host_is_kept_and_out_of_reach(browser: Browser, tmp_path: Path) -> None:
    tls = Authority(tmp_path).server("127.0.0.1")
    async with a_scene(tmp_path, tls=tls) as server, a_page(browser, server, ignore_https_errors=True) as page:
        asked = await ask_for_mail(server)
        [cookie] = await page.context.cookies()
        assert (cookie["name"], cookie["secure"], cookie["httpOnly"]) == ("__Host-agent-gate", True, True)
        assert await page.evaluate("document.cookie") == ""
        await page.get_by_role("button", name="Allow once").click()
        await expect(page.get_by_text("Allowed: mail.send of mail-bot.")).to_be_visible()
        assert await outcome_of(server, asked.call_id) is Status.SUCCESS


async def test_a_session_that_ends_elsewhere_ends_in_the_open_page(browser: Browser, tmp_path: Path) -> None:
    async with a_scene(tmp_path) as server, await browser.new_context(base_url=server.url) as context:
        page, other = await context.new_page(), await context.new_page()
        await page.goto("/console")
        await page.get_by_label("Your approver token").fill(CAROL_TOKEN)
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_text("Nothing waits for you")).to_be_visible()
        await other.goto("/console/health")
        await other.get_by_role("button", name="Verify everything").click()
        await expect(other.get_by_text("verified")).to_be_visible()
        await other.get_by_role("button", name="Sign out").click()
        await ask_for_mail(server)
        await expect(page.get_by_label("Your approver token")).to_be_visible()

"""`python -m tests.real.console_pictures`: the pictures in docs/images, taken anew from a console that runs."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Page, async_playwright

from tests.real.console_scene import (
    a_scene,
    ask,
    ask_for_a_note,
    ask_for_mail,
    ask_for_money,
    ask_for_warmth,
    live_a_morning,
)
from tests.real.test_console_browser import CHROMIUM, PHONE, a_page
from tests.servers import Served

IMAGES = Path(__file__).parent.parent.parent / "docs" / "images"
BYTES_MAX = 150_000
DESKTOP: dict[str, Any] = {"viewport": {"width": 1200, "height": 760}}


async def main() -> None:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        with tempfile.TemporaryDirectory(prefix="house-") as folder:
            async with a_scene(Path(folder)) as server:
                await live_a_morning(server)
                for wish in (ask_for_a_note, ask_for_mail, ask_for_warmth, ask_for_money):
                    await wish(server)
                hidden = {"path": "/note\u202etxt.exe", "value": f"fine{' ' * 6_000}; and then something else"}
                await ask(server, "kitchen-bot", "state.set", hidden, "home")
                await take_pictures(browser, server)
        await browser.close()


async def take_pictures(browser: Browser, server: Served) -> None:
    async with a_page(browser, server, **DESKTOP) as page:
        await take(page, "console-inbox")
        await page.goto("/console/timeline")
        await take(page, "console-timeline")
        await page.get_by_role("link", name="state.set(/kitchen/light, dim)").click()
        await take(page, "console-call")
        await page.goto("/console/check")
        await page.get_by_label("Tool").fill("mail.send")
        await page.get_by_label("Arguments, as JSON").fill('{"to": "ben@example.com"}')
        await page.locator("[name=agent]").select_option("mail-bot")
        await page.get_by_role("button", name="Judge it").click()
        await take(page, "console-check")
        await page.goto("/console/state/home")
        await take(page, "console-state")
    async with a_page(browser, server, **DESKTOP, color_scheme="dark") as page:
        await page.locator("#queue a").last.click()
        await page.get_by_text("6000 blanks").first.wait_for()
        await take(page, "console-dark")
    async with a_page(browser, server, **PHONE) as page:
        await page.locator("#queue a").nth(1).tap()
        await page.get_by_role("button", name="Allow once").wait_for()
        await take(page, "console-phone")


async def take(page: Page, name: str) -> None:
    await page.mouse.move(0, 0)
    await page.wait_for_timeout(300)
    file = IMAGES / f"{name}.png"
    await page.screenshot(path=file)
    assert file.stat().st_size <= BYTES_MAX, f"{file.name} has {file.stat().st_size} bytes"


if __name__ == "__main__":
    asyncio.run(main())

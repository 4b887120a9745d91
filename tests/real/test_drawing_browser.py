"""What a page draws, in a real browser: numbers keep their order, and nothing is unseen or over its neighbours."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, async_playwright, expect

from agent_gate.model.invisible import DEFAULT_IGNORABLE, is_invisible
from tests.real.console_scene import a_scene, ask
from tests.real.test_console_browser import CHROMIUM, a_page

pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason="chromium is not installed: apt-get install chromium")

IGNORABLE = """() => {
  const found = [];
  for (let code = 0; code < 0x110000; code++)
    if (/\\p{Default_Ignorable_Code_Point}/u.test(String.fromCodePoint(code))) found.push(code);
  return found;
}"""
PLACES = """(node) => {
  const places = [];
  const walker = document.createTreeWalker(node, NodeFilter.SHOW_TEXT);
  for (let text = walker.nextNode(); text; text = walker.nextNode())
    for (const found of text.data.matchAll(/\\d+/g)) {
      const range = document.createRange();
      range.setStart(text, found.index);
      range.setEnd(text, found.index + found[0].length);
      const box = range.getBoundingClientRect();
      places.push([found[0], Math.round(box.left), Math.round(box.top)]);
    }
  return places;
}"""


@pytest.fixture(scope="module")
async def browser(anyio_backend: str) -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        started = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        await started.close()


async def test_the_table_of_ignorable_characters_is_the_one_of_the_browser(browser: Browser) -> None:
    page = await browser.new_page()
    ours = {number for first, last in DEFAULT_IGNORABLE for number in range(first, last + 1)}
    theirs = set(await page.evaluate(IGNORABLE))
    assert {number for number in theirs if not is_invisible(chr(number))} == set()
    assert theirs <= ours


async def test_letters_from_right_to_left_leave_numbers_where_they_are(browser: Browser, tmp_path: Path) -> None:
    async with a_scene(tmp_path) as server, a_page(browser, server) as page:
        await ask(server, "mail-bot", "mail.send", {"to": "אב, 100, 9", "subject": "שלום 1 2 (3) ٤"})
        await expect(page.get_by_role("heading", name="mail-bot wants to call mail.send")).to_be_visible()
        for place in ("#detail .argument >> nth=0", "#detail .signatures", "#queue .row code"):
            seen = await page.locator(place).first.evaluate(PLACES)
            numbers = [(top, left) for _, left, top in seen]
            assert len(numbers) >= 2
            assert numbers == sorted(numbers)


async def test_a_stack_of_marks_stays_in_its_line(browser: Browser, tmp_path: Path) -> None:
    async with a_scene(tmp_path) as server, a_page(browser, server) as page:
        await ask(server, "mail-bot", "mail.send", {"to": "x" + "\u0336\u030d" * 500, "subject": "next"})
        value = page.locator("#detail .argument pre").first
        await expect(value).to_contain_text("U+0336")
        assert await value.evaluate("node => node.scrollWidth <= node.clientWidth")
        text = await value.inner_text()
        assert "\u0336\u030d\u0336\u030d\u0336" not in text

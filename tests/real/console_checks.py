"""What a real browser can tell of a page: whether everything has a name, and whether every text can be read."""

from __future__ import annotations

from pathlib import Path

from playwright.async_api import Page

_CHECKS = Path(__file__).with_suffix(".js").read_text()


async def unnamed(page: Page) -> list[str]:
    """Fields, buttons, landmarks and headings that a screen reader could not tell."""
    return await _look(page, "unnamed")


async def unreadable(page: Page) -> list[str]:
    """Texts whose contrast is below WCAG AA."""
    return await _look(page, "unreadable")


async def too_wide(page: Page) -> list[str]:
    return await _look(page, "tooWide")


async def _look(page: Page, name: str) -> list[str]:
    found: list[str] = await page.evaluate(f"{_CHECKS.strip()}.{name}()")
    return found

"""The report's page in a real browser: it shows what happened, in light and dark, on a phone, without scripts."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from agent_gate.history.report import build_report
from agent_gate.history.report_page import render
from agent_gate.ledger.sqlite.reader import open_reader
from tests.scenarios.test_cli import run, run_json

CHROMIUM = shutil.which("chromium")
FLAGS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")

HOSTILE = "</pre><script>document.title='taken'</script><img src=x onerror=alert(1)>"
PLAN = f"""
version: "1.0"
name: "a week <b>in</b> review"
steps:
  - {{name: note it, tool: state.set, args: {{path: /note, value: "{HOSTILE}"}}}}
  - {{tool: fs.read, args: {{path: {"a" * 200}.txt}}}}
  - {{tool: fs.read, args: {{path: /etc/passwd}}}}
  - {{tool: shell.run, args: {{argv: [ls]}}}}
"""
POLICY = """
version: 1
tools:
  fs.read: {allow_paths: ["./**"]}
  shell.run: {allow_executables: [ls], sandbox: off}
rules: [{pattern: "state.*", action: allow}]
"""

CONTRASTS = """() => {
  const light = colour => {
    const [r, g, b] = colour.match(/[0-9.]+/g).map(part => part / 255)
      .map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  return [...document.querySelectorAll('.badge')].map(badge => {
    const style = getComputedStyle(badge);
    const [dark, bright] = [light(style.color), light(style.backgroundColor)].sort((a, b) => a - b);
    return (bright + 0.05) / (dark + 0.05);
  });
}"""


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("run")
    (directory / "policy.yaml").write_text(POLICY)
    (directory / "plan.yaml").write_text(PLAN)
    run(directory, "run", "plan.yaml", "--no-fail-fast")
    [recorded] = run_json(directory, "list-runs")["runs"]
    with closing(open_reader(directory / "agent-gate.db")) as reader:
        text = render(build_report(reader, recorded["run_id"], time.time()))
    page = directory / "report.html"
    page.write_text(text, encoding="utf-8")
    return page


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        with_flags = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield with_flags
        with_flags.close()


def opened(browser: Browser, page_file: Path, **options: object) -> Page:
    page = browser.new_context(**options).new_page()  # type: ignore[arg-type]  # options of a context, by name
    page.goto(page_file.as_uri())
    return page


def test_without_scripts_it_tells_what_happened_why_and_what_to_do(browser: Browser, page_file: Path) -> None:
    page = opened(browser, page_file, java_script_enabled=False)
    assert page.get_by_role("heading", level=1).inner_text() == "a week <b>in</b> review · failed"
    headings = page.get_by_role("heading", level=2).all_inner_texts()
    assert headings == ["Timeline", "Not done", "Touched", "Steps", "Plan and policy"]
    assert page.get_by_role("img").count() == 4
    refusal = page.locator(".refusals li").nth(1).inner_text()
    assert "`/etc/passwd` is outside allow_paths of fs.read (./**) 1002 path_denied" in refusal
    assert "To change it: add it there, or read a file that they cover" in refusal
    assert "The policy lets commands run without a sandbox." in page.locator(".warning").inner_text()


def test_a_step_is_reached_from_the_timeline_by_keyboard_and_opens(browser: Browser, page_file: Path) -> None:
    page = opened(browser, page_file, java_script_enabled=False)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    step = page.locator("details:target")
    assert step.locator("summary").inner_text().startswith("✓ success 1 note it")
    step.locator("summary").press("Enter")
    assert "document.title" in step.locator("pre").first.inner_text()


def test_text_of_agents_runs_nothing_and_nothing_is_loaded_from_elsewhere(browser: Browser, page_file: Path) -> None:
    asked: list[str] = []
    page = browser.new_context().new_page()
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: asked.append(message.text))
    page.on("dialog", lambda dialog: asked.append(dialog.message))
    page.goto(page_file.as_uri())
    assert asked == [page_file.as_uri()]
    assert page.title() == "agent-gate: a week <b>in</b> review · failed"
    assert page.locator("script, img").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_can_be_told_from_their_background(browser: Browser, page_file: Path, scheme: str) -> None:
    page = opened(browser, page_file, color_scheme=scheme)
    contrasts = page.evaluate(CONTRASTS)
    assert len(contrasts) == 4 + 2 + 4
    assert min(contrasts) >= 4.5


def test_it_is_dark_where_people_like_it_dark(browser: Browser, page_file: Path) -> None:
    grounds = [
        opened(browser, page_file, color_scheme=scheme).evaluate("getComputedStyle(document.body).backgroundColor")
        for scheme in ("light", "dark")
    ]
    assert grounds == ["rgba(0, 0, 0, 0)", "rgb(13, 17, 23)"]


@pytest.mark.parametrize("width", [320, 375, 800, 1400])
def test_no_screen_is_too_narrow_for_it(browser: Browser, page_file: Path, width: int) -> None:
    page = opened(browser, page_file, viewport={"width": width, "height": 800})
    page.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") <= width

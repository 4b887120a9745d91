"""The documents tell the truth: every policy and plan in them loads, every command runs, and prints what they show.

A block is written to the file that the line before it names, and commands run in the order in which they stand, in a
directory of the document's own. `RUN` and `CALL` stand for the newest run, and the newest write that can be undone.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent_gate.config import load_plan, load_policy
from agent_gate.config.yaml_file import load_yaml
from tests.scenarios.test_cli import TIMEOUT_S, run_json

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    "README.md",
    "docs/quickstart.md",
    "docs/concepts.md",
    "docs/security.md",
    "docs/guides/local-tools.md",
    "docs/guides/plans.md",
    "docs/guides/policy.md",
    "docs/guides/sandbox.md",
]
ELSEWHERE = ("make ", ". .venv/")
"""What a new user types in a clone; the tests run in one already."""

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE_NAMED = re.compile(r"`([\w-]+\.(?:yaml|py))`")
_EXIT_CODE = re.compile(r"#.*exit code (\d)")


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    file: str
    """Named on the line before it, or nothing."""


def blocks_of(document: str) -> Iterator[Block]:
    text = (ROOT / document).read_text()
    for found in _BLOCK.finditer(text):
        before = text[: found.start()].rstrip().rpartition("\n")[2]
        named = _FILE_NAMED.search(before)
        yield Block(found[1], found[2], named[1] if named else "")


def _load(path: Path) -> None:
    """A plan, a whole policy, or a part of one."""
    fields = load_yaml(path).value
    if "steps" in fields:
        load_plan(path)
    else:
        load_policy({"version": 1, **fields})


def _shell(directory: Path, command: str) -> subprocess.CompletedProcess[str]:
    for word, found in (("RUN", _newest_run), ("CALL", _newest_write)):
        if re.search(rf"\b{word}\b", command):
            command = re.sub(rf"\b{word}\b", found(directory), command)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "AGENT_GATE_DB": "agent-gate.db"}
    return subprocess.run(
        ["bash", "-c", command], cwd=directory, env=env, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )


def _newest_run(directory: Path) -> str:
    return str(run_json(directory, "list-runs")["runs"][0]["run_id"])


def _newest_write(directory: Path) -> str:
    entries = run_json(directory, "audit", "--tool", "fs.write", "--status", "success")["entries"]
    return str(entries[0]["call_id"])


def _run_session(directory: Path, session: str) -> None:
    printed = ""
    for line in session.splitlines():
        if not line.startswith("$ "):
            pattern = re.escape(line).replace("…", ".*")
            pattern = re.sub(r"\d+\\\.\d\\ ms", r"\\d+\\.\\d ms", pattern)
            assert re.search(f"^{pattern}$", printed, re.MULTILINE), f"not printed: {line}\nbut:\n{printed}"
        elif not line.removeprefix("$ ").startswith(ELSEWHERE):
            done = _shell(directory, line.removeprefix("$ "))
            expected = _EXIT_CODE.search(line)
            assert done.returncode == int(expected[1] if expected else 0), f"{line}\n{done.stdout}{done.stderr}"
            assert "Traceback" not in done.stderr
            printed = done.stdout


@pytest.mark.parametrize("document", DOCUMENTS)
def test_what_a_document_shows_loads_runs_and_prints_what_it_says(document: str, tmp_path: Path) -> None:
    for number, block in enumerate(blocks_of(document)):
        if block.language == "console":
            _run_session(tmp_path, block.text)
            continue
        assert block.language in ("yaml", "python"), f"a block of {block.language} that nothing tries"
        file = tmp_path / (block.file or f"block-{number}.{'py' if block.language == 'python' else 'yaml'}")
        file.write_text(block.text)
        if block.language == "yaml":
            _load(file)
        else:
            done = _shell(tmp_path, f"python {file.name}")
            assert (done.returncode, done.stderr) == (0, "")


def test_every_document_of_ours_is_tried_or_shows_nothing_to_try() -> None:
    elsewhere = {
        "CONTRIBUTING.md",
        "docs/architecture.md",
        "docs/guides/chain.md",
        "docs/guides/envoy.md",
        "docs/guides/policy-agent.md",
        "docs/guides/telegram.md",
        "docs/guides/tools.md",
        "docs/reference/commands.md",
        "docs/reference/policies.md",
    }
    pages = {str(path.relative_to(ROOT)) for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))}
    showing = {page for page in pages if not page.startswith("docs/decisions/") and list(blocks_of(page))}
    assert showing - set(DOCUMENTS) - elsewhere == set()


def test_every_link_between_documents_leads_somewhere() -> None:
    broken = []
    for document in DOCUMENTS:
        text = (ROOT / document).read_text()
        for target, part in re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)]*))?\)", text):
            page = (ROOT / document).parent / target if target else ROOT / document
            headings = (
                re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
                if page.suffix == ".md" and page.exists()
                else []
            )
            anchors = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]
            if not page.exists() or (part and part not in anchors):
                broken.append((document, target, part))
    assert broken == []

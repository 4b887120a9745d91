"""The documents tell the truth: every policy and plan in them loads, every command runs, and prints what they show.

A block is written to the file that the line before it names, and commands run in the order in which they stand, in a
directory of the document's own. `RUN` and `CALL` stand for the newest run, and the newest write that can be undone;
`ID` and `GRANT` for the newest question and the newest grant. `agent-gate serve` is started on a free port, and serves
until the document ends; a command that `waits` goes on beside the others until it is answered, at the latest when the
document ends, and must then succeed.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import pytest

from agent_gate.config import load_config, load_plan, load_policy
from agent_gate.config.yaml_file import load_yaml
from tests.scenarios.test_cli import TIMEOUT_S, run_json

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    "README.md",
    "docs/quickstart.md",
    "docs/concepts.md",
    "docs/security.md",
    "docs/guides/console.md",
    "docs/guides/local-tools.md",
    "docs/guides/plans.md",
    "docs/guides/policy.md",
    "docs/guides/sandbox.md",
    "docs/guides/server.md",
]
ELSEWHERE = ("make ", ". .venv/")
"""What a new user types in a clone; the tests run in one already."""
PORT = "8443"

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE_NAMED = re.compile(r"`([\w-]+\.(?:yaml|py))`")
_EXIT_CODE = re.compile(r"#.*exit code (\d)")
_WAITS = re.compile(r"#.*\bwaits\b")
_OF_CONFIG = frozenset(("gateway", "agents", "approvers", "messenger", "projects", "services"))


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


def _load(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan, a whole policy, a part of one, or a part of a configuration."""
    for name in re.findall(r"\$\{(\w+)\}", path.read_text()):
        monkeypatch.setenv(name, f"{name}-0123456789abcdef0123456789abcdef")
    fields = load_yaml(path).value
    if "steps" in fields:
        load_plan(path)
    elif _OF_CONFIG & fields.keys():
        needed = {
            "agents": "[{id: a, token: an-agents-token-0123456789abcdef}]",
            "gateway": "{host: 127.0.0.1, port: 1}",
        }
        path.write_text(path.read_text() + "".join(f"{key}: {needed[key]}\n" for key in needed.keys() - fields.keys()))
        load_config(path)
    else:
        load_policy({"version": 1, **fields})


@dataclass
class Session:
    """What a reader of one document has: a directory, perhaps a server, and commands that still wait."""

    directory: Path
    port: str = PORT
    server: subprocess.Popen[str] | None = None
    waiting: list[subprocess.Popen[str]] = field(default_factory=list)

    def play(self, session: str) -> None:
        printed = ""
        for line in session.splitlines():
            if not line.startswith("$ "):
                pattern = re.escape(line.replace(PORT, self.port)).replace("…", ".*")
                pattern = re.sub(r"\d+\\\.\d\\ ms", r"\\d+\\.\\d ms", pattern)
                assert re.search(f"^{pattern}$", printed, re.MULTILINE), f"not printed: {line}\nbut:\n{printed}"
            elif not line.removeprefix("$ ").startswith(ELSEWHERE):
                printed = self.type(line.removeprefix("$ "))

    def type(self, command: str) -> str:
        """What the command printed; nothing yet where it waits."""
        if command.startswith("agent-gate serve"):
            return self.serve(command)
        if _WAITS.search(command):
            asked = len(self.questions()) + 1
            self.waiting.append(self.start(command))
            self.until(lambda: len(self.questions()) == asked)
            return ""
        with self.start(command) as process:
            out, err = process.communicate(timeout=TIMEOUT_S)
        expected = _EXIT_CODE.search(command)
        assert process.returncode == int(expected[1] if expected else 0), f"{command}\n{out}{err}"
        assert "Traceback" not in err
        assert not err or command.startswith("agent-gate ")
        return out

    def serve(self, command: str) -> str:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = str(free.getsockname()[1])
        config = self.directory / "config.yaml"
        config.write_text(config.read_text().replace(PORT, self.port))
        self.server = self.start(command)
        assert self.server.stdout is not None
        return "".join(_lines_until(self.server.stdout, "  agents  "))

    def questions(self) -> list[str]:
        return [question["call_id"] for question in run_json(self.directory, "pending")["pending"]]

    def until(self, condition: Callable[[], bool]) -> None:
        for _ in range(100):
            if condition():
                return
        raise AssertionError("what was waited for did not happen")

    def start(self, command: str) -> subprocess.Popen[str]:
        for word, found in _STAND_FOR.items():
            if re.search(rf"\b{word}\b", command.partition("#")[0]):
                command = re.sub(rf"\b{word}\b", found(self.directory), command)
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        env = {**os.environ, "PATH": path, "AGENT_GATE_DB": "agent-gate.db"}
        # Without a shell of its own in between, a signal reaches the command itself.
        return subprocess.Popen(
            ["bash", "-c", f"exec {command}" if self._is_single(command) else command],
            cwd=self.directory, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    @staticmethod
    def _is_single(command: str) -> bool:
        return command.startswith("agent-gate ") and not re.search(r"&&|[|;<>]", command.partition("#")[0])

    def close(self) -> None:
        """Answer what still waits, as the document says to do in the browser, and end the server."""
        for call_id in self.questions() if self.waiting else ():
            self.type(f"agent-gate approve {call_id}")
        for process in self.waiting:
            out, err = process.communicate(timeout=TIMEOUT_S)
            assert (process.returncode, err) == (0, ""), out
        if self.server:
            self.server.send_signal(signal.SIGTERM)
            _, err = self.server.communicate(timeout=TIMEOUT_S)
            assert (self.server.returncode, err) == (0, "")


@contextmanager
def a_session(directory: Path) -> Iterator[Session]:
    session = Session(directory)
    try:
        yield session
        session.close()
    finally:
        for process in (*session.waiting, *([session.server] if session.server else [])):
            process.kill()
            process.communicate()


def _lines_until(stream: IO[str], beginning: str) -> Iterator[str]:
    for line in stream:
        yield line
        if line.startswith(beginning):
            return


def _newest_run(directory: Path) -> str:
    """That is no replay: a replay is not replayed."""
    runs = run_json(directory, "list-runs")["runs"]
    return str(next(run["run_id"] for run in runs if run["mode"] != "replay"))


def _newest_write(directory: Path) -> str:
    for tool in ("fs.write", "shell.run"):
        if entries := run_json(directory, "audit", "--tool", tool, "--status", "success")["entries"]:
            return str(entries[0]["call_id"])
    raise AssertionError("the document shows no write that could be undone")


def _newest_question(directory: Path) -> str:
    return str(run_json(directory, "pending")["pending"][-1]["call_id"])


def _newest_grant(directory: Path) -> str:
    return str(run_json(directory, "grants")["grants"][-1]["grant_id"])


_STAND_FOR = {"RUN": _newest_run, "CALL": _newest_write, "ID": _newest_question, "GRANT": _newest_grant}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_what_a_document_shows_loads_runs_and_prints_what_it_says(
    document: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with a_session(tmp_path) as session:
        for number, block in enumerate(blocks_of(document)):
            if block.language == "console":
                session.play(block.text)
                continue
            assert block.language in ("yaml", "python"), f"a block of {block.language} that nothing tries"
            file = tmp_path / (block.file or f"block-{number}.{'py' if block.language == 'python' else 'yaml'}")
            file.write_text(block.text.replace(PORT, session.port))
            if block.language == "yaml":
                _load(file, monkeypatch)
            else:
                session.type(f"python {file.name}")


def _pages() -> list[str]:
    return sorted(str(path.relative_to(ROOT)) for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")))


def test_every_document_of_ours_is_tried_or_shows_nothing_to_try() -> None:
    elsewhere = {
        "CONTRIBUTING.md",
        "docs/architecture.md",
        "docs/guides/chain.md",
        "docs/guides/envoy.md",
        "docs/guides/home-assistant-approvals.md",
        "docs/guides/home-assistant.md",
        "docs/guides/mcp.md",
        "docs/guides/policy-agent.md",
        "docs/guides/telegram.md",
        "docs/guides/tools.md",
        "docs/guides/webhook-approvals.md",
        "docs/reference/commands.md",
        "docs/reference/policies.md",
    }
    showing = {page for page in _pages() if not page.startswith("docs/decisions/") and list(blocks_of(page))}
    assert showing - set(DOCUMENTS) - elsewhere == set()


def test_every_link_between_documents_leads_somewhere() -> None:
    broken = []
    for document in _pages():
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

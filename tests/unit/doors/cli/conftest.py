"""Runs a command line inside the test's process, in an empty directory."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agent_gate.doors.cli.program import run


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def json_lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


Command = Callable[..., Said]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AGENT_GATE_DB", raising=False)
    monkeypatch.delenv("AGENT_GATE_DEBUG", raising=False)

    def command(*words: object) -> Said:
        capsys.readouterr()
        code = run([str(word) for word in words])
        said = capsys.readouterr()
        return Said(code, said.out, said.err)

    return command

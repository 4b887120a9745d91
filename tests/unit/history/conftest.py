"""A ledger with one of everything, made once, and a copy of it for each test that changes something."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from agent_gate.ledger.sqlite.backup import backup
from agent_gate.ledger.sqlite.reader import open_reader
from agent_gate.ports.reading import Reader
from tests.unit.history.made import Made, make_ledger


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return asyncio.run(make_ledger(tmp_path_factory.mktemp("made") / "a.db"))


@pytest.fixture(scope="session")
def reader(made: Made) -> Iterator[Reader]:
    with closing(open_reader(made.db)) as reader:
        yield reader


@pytest.fixture
def copy(made: Made, tmp_path: Path) -> Made:
    backup(made.db, tmp_path / "copy.db")
    return Made(tmp_path / "copy.db", made.calls, made.run_id)

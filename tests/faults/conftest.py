"""Nurseries for every test of faults: starting one costs a second, a program in it milliseconds."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults import shim
from tests.faults.nursery import Nursery


@pytest.fixture(scope="session")
def shimmed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    """Its programs can be failed or killed at any change to a file."""
    if shim.COMPILER is None:
        pytest.skip("no C compiler to build the shim with")
    with Nursery(preload=shim.build(tmp_path_factory.mktemp("shim"))) as nursery:
        yield nursery


@pytest.fixture
def fast_path(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: for faults that are made, not found, a real disk is only slower."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="agent-gate-", dir=memory) as folder:
        yield Path(folder)

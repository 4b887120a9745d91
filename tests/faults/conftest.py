"""Nurseries for every test of faults: starting one costs a second, a program in it milliseconds."""

from __future__ import annotations

from collections.abc import Iterator

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

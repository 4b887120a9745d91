"""What every test shares: one async backend, how many examples a property tries, and turns for serial tests."""

from __future__ import annotations

import fcntl
import itertools
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest
import time_machine
from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.real.homes"]

_HERE = Path(__file__)

# A busy machine is no defect of the code under test: no time limit fails a property.
_UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("everyday", _UNTIMED, max_examples=100)
settings.register_profile("ci", _UNTIMED, max_examples=100, derandomize=True, print_blob=True)
settings.register_profile("thorough", _UNTIMED, max_examples=100_000, print_blob=True)


def _profile() -> str:
    if os.environ.get("AGENT_GATE_THOROUGH") == "1":
        return "thorough"
    return "ci" if os.environ.get("CI") else "everyday"


settings.load_profile(_profile())


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--at",
        metavar="MOMENT",
        type=datetime.fromisoformat,
        help="begin at this moment instead of now, for all that runs in process: 2028-02-29T23:30+00:00",
    )


@pytest.fixture(scope="session", autouse=True)
def _moment(request: pytest.FixtureRequest) -> Iterator[None]:
    """No test may know the hour or the date; this is for people who want to see that."""
    moment = request.config.getoption("--at")
    if moment is None:
        yield
        return
    with time_machine.travel(moment, tick=True):
        yield


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


_STATES = itertools.count()


@pytest.fixture(autouse=True)
def _state_of_this_test(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gates tell each other of their own files: not those of other tests, nor of whoever runs them."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.getbasetemp() / f"state-{next(_STATES)}"))


@pytest.fixture(scope="session", autouse=True)
def _state_of_all_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """For what begins before a test and outlives it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.getbasetemp() / "state"))
        yield


@contextmanager
def _turn(*, alone: bool) -> Iterator[None]:
    """Many at once or one alone, among all workers; who waits at the gate lets nobody pass, so that none starves.

    Groups of xdist 3.8 do not work under pytest 9.2, which no longer reads the attribute that xdist sets.
    """
    gate = os.open(_HERE.parent, os.O_RDONLY)
    room = os.open(_HERE, os.O_RDONLY)
    try:
        fcntl.flock(gate, fcntl.LOCK_EX)
        fcntl.flock(room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(gate, fcntl.LOCK_UN)
        yield
    finally:
        # Closing alone would leave the lock with a child that the test forked.
        fcntl.flock(room, fcntl.LOCK_UN)
        os.close(room)
        os.close(gate)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Outside the time limit of the test, which must not run while it waits."""
    if not hasattr(item.config, "workerinput"):
        return (yield)
    with _turn(alone=item.get_closest_marker("serial") is not None):
        return (yield)

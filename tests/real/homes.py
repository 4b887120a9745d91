"""A real Home Assistant on loopback: installed once into a cache, started once per test process, stopped at its end."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from tests.real.envoy import free_port
from tests.scenarios.certificates import Authority

SCRIPT = Path(__file__).with_name("home_assistant.sh")
VERSION = "2024.3.3"
PYTHONS = ((3, 11), (3, 12))
"""What that release runs on."""
FURNISHED = {
    "light.bed_light": "off",
    "light.kitchen_lights": {"state": "on", "brightness": 180},
    "light.ceiling_lights": {"state": "on", "brightness": 180},
    "input_boolean.guest_mode": "off",
    "input_boolean.movie_mode": "off",
    "lock.front_door": "locked",
    "lock.kitchen_door": "unlocked",
    "climate.heatpump": {"state": "heat", "temperature": 20},
}
INSTALL_S, START_S, STOP_S = 240, 50, 25
"""Together with the start below the time limit of one test."""


@dataclass(frozen=True, slots=True)
class RealHome:
    url: str
    ws_url: str
    token: str
    limited_token: str
    readonly_token: str
    version: str
    directory: Path
    authority: Path | None = None
    """The certificate of who signed the server's, where it speaks TLS."""


def venv() -> Path:
    """Home Assistant in an environment of its own, made by the first process that asks for it."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "agent-gate-tests"
    cache.mkdir(parents=True, exist_ok=True)
    directory = cache / f"homeassistant-{VERSION}"
    with (cache / f"homeassistant-{VERSION}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _run("--install", str(directory), env={"HA_VENV": str(directory)}, timeout_s=INSTALL_S + 10)
    return directory


@contextmanager
def started(directory: Path, *, tls: bool = False) -> Iterator[RealHome]:
    env = {"HA_VENV": str(venv()), "HA_OWNER": str(os.getpid()), "HA_TLS": "1" if tls else "0"}
    authority = _certified(directory) if tls else None
    try:
        said = json.loads(_run(str(directory), str(free_port()), env=env, timeout_s=START_S + 30))
        fields = ("url", "ws_url", "token", "limited_token", "readonly_token", "version")
        yield RealHome(**{name: said[name] for name in fields}, directory=directory, authority=authority)
    finally:
        _run("--stop", str(directory), env=env, timeout_s=STOP_S + 10)


@pytest.fixture(scope="session")
def real_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealHome]:
    """For one process of tests, whichever of them ask for it."""
    with started(tmp_path_factory.mktemp("home_assistant")) as home:
        yield home


@pytest.fixture
def real_home(real_server: RealHome) -> RealHome:
    """With its lights, locks and switches as they were furnished, whatever an earlier test did to them."""
    headers = {"Authorization": f"Bearer {real_server.token}"}
    url = f"{real_server.url}/api/services/scene/apply"
    with httpx2.Client(trust_env=False, timeout=START_S) as client:
        client.post(url, json={"entities": FURNISHED}, headers=headers).raise_for_status()
    return real_server


@pytest.fixture(scope="session")
def real_home_with_tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealHome]:
    with started(tmp_path_factory.mktemp("home_assistant_tls"), tls=True) as home:
        yield home


def _certified(directory: Path) -> Path:
    """A certificate and its key, where the script looks for them, and the one that they are to be checked by."""
    authority = Authority(directory)
    authority.server("127.0.0.1", "localhost")
    pem = (directory / "127.0.0.1.pem").read_bytes()
    for name in ("tls.crt", "tls.key"):
        (directory / name).write_bytes(pem)
    (directory / "authority.pem").write_bytes(authority.certificate.public_bytes(Encoding.PEM))
    return directory / "authority.pem"


def _run(*args: str, env: dict[str, str], timeout_s: float) -> str:
    """What the script says; its log is in the failure where it fails."""
    limits = {"HA_INSTALL_TIMEOUT": str(INSTALL_S), "HA_START_TIMEOUT": str(START_S), "HA_STOP_TIMEOUT": str(STOP_S)}
    given = {**os.environ, **limits, "HA_PYTHON": _python(), "HA_UV": _uv(), **env}
    done = subprocess.run(
        ["bash", str(SCRIPT), *args], env=given, capture_output=True, text=True, check=False, timeout=timeout_s
    )
    if done.returncode:
        pytest.fail(f"{SCRIPT.name} {args[0]}: {done.stderr[-2_000:]}")
    return done.stdout


def _python() -> str:
    if sys.version_info[:2] in PYTHONS:
        return sys.executable
    found = (shutil.which(f"python{major}.{minor}") for major, minor in PYTHONS)
    python = next(filter(None, found), None)
    if python is None:
        pytest.skip(f"Home Assistant {VERSION} needs Python 3.11 or 3.12")
    return python


def _uv() -> str:
    beside = Path(sys.executable).with_name("uv")
    return str(beside) if beside.exists() else shutil.which("uv") or ""

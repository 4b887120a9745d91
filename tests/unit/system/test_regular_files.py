"""Files that a configuration or a policy names: whatever else stands there is refused, and nobody waits for it."""

from __future__ import annotations

import asyncio
import os
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from agent_gate.chain.builtin.jwks import KeySource, fetched
from agent_gate.chain.configured import registry_of
from agent_gate.chain.faults import PolicyFailure
from agent_gate.config import GatewayConfig
from agent_gate.config.config_file import CONFIG_FORMAT
from agent_gate.config.settings import TLSConfig
from agent_gate.hosts.server.starting import _tls_of
from agent_gate.ledger.files import LedgerFiles
from agent_gate.model.bounds import CERTIFICATE_BYTES_MAX
from agent_gate.model.errors import ConfigError, StorageError
from agent_gate.system.clock import SystemClock
from agent_gate.system.regular_files import open_regular, read_regular

HUGE_BYTES = 64 * CERTIFICATE_BYTES_MAX


def _named_pipe(path: Path) -> None:
    os.mkfifo(path)


def _link_to_pipe(path: Path) -> None:
    os.mkfifo(path.with_name("pipe"))
    path.symlink_to("pipe")


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(path))


def _huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(HUGE_BYTES)


KINDS: dict[str, Callable[[Path], None]] = {
    "a named pipe": _named_pipe,
    "a directory": Path.mkdir,
    "a socket": _socket,
    "a link to a named pipe": _link_to_pipe,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "huge": _huge,
}


async def _jwks_file(path: Path) -> None:
    await KeySource(str(path), SystemClock(), fetched).keys("one")


async def _certificate(path: Path) -> None:
    _tls_of(GatewayConfig("127.0.0.1", 0, TLSConfig(str(path), "/nowhere")))


async def _key(path: Path) -> None:
    certificate = path.with_name("certificate")
    certificate.touch()
    _tls_of(GatewayConfig("127.0.0.1", 0, TLSConfig(str(certificate), str(path))))


async def _ledger(path: Path) -> None:
    LedgerFiles(path).create()


FIELDS: dict[str, Callable[[Path], Any]] = {
    "jwks_file": _jwks_file,
    "gateway.tls.cert": _certificate,
    "gateway.tls.key": _key,
    "storage.path": _ledger,
}
NO_FILE_TO_READ = {
    "policy_agent.socket_path": "a socket of our own is bound there",
    "policy_agent.routes.path": "of a URL",
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("field", FIELDS)
async def test_a_field_that_names_something_else_is_refused_at_once(field: str, kind: str, tmp_path: Path) -> None:
    if field == "storage.path" and kind in ("huge", "a device"):
        pytest.skip("a ledger may be large; and no test of ours opens a device to write")
    path = tmp_path / "named"
    KINDS[kind](path)
    with pytest.raises((ConfigError, PolicyFailure, StorageError)):
        async with asyncio.timeout(20):
            await FIELDS[field](path)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "huge"])
def test_what_stands_there_is_told(kind: str, tmp_path: Path) -> None:
    KINDS[kind](tmp_path / "named")
    with pytest.raises(OSError, match=f"it is {kind.removeprefix('a link to ')}, not a file"):
        open_regular(tmp_path / "named")


def test_no_more_is_read_than_there_may_be(tmp_path: Path) -> None:
    (tmp_path / "named").write_bytes(b"12345")
    assert read_regular(tmp_path / "named", 5) == b"12345"
    with pytest.raises(OSError, match="larger than 4 bytes"):
        read_regular(tmp_path / "named", 4)


def _properties(schema: Any, place: str = "") -> Iterator[str]:
    if isinstance(schema, Mapping):
        for name, below in schema.get("properties", {}).items():
            yield f"{place}.{name}".lstrip(".")
            yield from _properties(below, f"{place}.{name}")
        for key, below in schema.items():
            if key != "properties":
                yield from _properties(below, place)
    elif isinstance(schema, list):
        for below in schema:
            yield from _properties(below, place)


def test_every_field_that_names_a_file_is_in_the_table() -> None:
    found = {
        name for name in _properties(CONFIG_FORMAT.schema) if re.search(r"(^|[._])(cert|path|file)$|tls\.key$", name)
    }
    for policy in registry_of({}, SystemClock()).policies():
        found |= {field for field in _properties(policy.metadata_schema) if field.endswith("_file")}
    assert found == {*FIELDS, *NO_FILE_TO_READ}

"""Files of gates in a working directory: ledgers, configurations and policies, of whichever start."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from agent_gate.config.yaml_file import parse_yaml
from agent_gate.model.bounds import OWN_DATABASES_MAX, OWN_ENTRIES_MAX, OWN_TEXT_BYTES_MAX
from agent_gate.model.errors import ConfigError
from agent_gate.model.ledger_names import ANCHOR, DEFAULT_LEDGER, DIRECTORY
from agent_gate.model.tool import Json

NAMES = ("config.yaml", "policy.yaml", "permissions.yaml")
_SQLITE = b"SQLite format 3\0"
_SCHEMA_BYTES = 524_288
"""Bytes into a database that its schema may reach: the tables are made before they are filled."""
_OF_A_LEDGER = (b"CREATE TABLE entries (", b"prev_hash")
_SETTLED_NS = 1_000_000_000
"""A clock of a file system may stand still for some milliseconds: what changed just now is looked at again."""

_CONFIG_KEYS = frozenset({"gateway", "approvers"})
_KEY = re.compile(rb"""(?:^|[\s{,"'])(gateway|approvers|version|rules|defaults|tools)["']?\s*:""")


class Found(NamedTuple):
    ledgers: tuple[str, ...] = ()
    """Databases, by their whole names."""
    configs: tuple[str, ...] = ()
    policies: tuple[str, ...] = ()


def look_into(directory: str) -> Found:
    """Find what is there now; looked at again only when something there has changed."""
    stamp = _stamp(directory)
    return _looked(directory, stamp) if stamp else _look(directory)


def _stamp(directory: str) -> tuple[tuple[int, ...], ...] | None:
    """Says that nothing has changed; None where that cannot be said."""
    stamps: list[tuple[int, ...]] = []
    newest = 0
    for path in (directory, *(f"{directory}/{name}" for name in NAMES)):
        try:
            status = os.stat(path)
        except OSError:
            stamps.append((0,))
            continue
        stamps.append((status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size))
        newest = max(newest, status.st_mtime_ns, status.st_ctime_ns)
    return None if time.time_ns() - newest < _SETTLED_NS else tuple(stamps)


@lru_cache(maxsize=64)
def _looked(directory: str, _: tuple[tuple[int, ...], ...]) -> Found:
    return _look(directory)


def _look(directory: str) -> Found:
    kinds = {f"{directory}/{name}": _kind(f"{directory}/{name}", name) for name in NAMES}
    return Found(
        tuple(_ledgers(directory)),
        tuple(path for path, kind in kinds.items() if kind == "config"),
        tuple(path for path, kind in kinds.items() if kind == "policy"),
    )


def _ledgers(directory: str) -> Iterator[str]:
    """The one that a start makes unless told otherwise, also before it does; and every other."""
    yield f"{directory}/{DEFAULT_LEDGER}"
    try:
        with os.scandir(directory) as entries:
            names = {entry.name for entry, _ in zip(entries, range(OWN_ENTRIES_MAX), strict=False)}
    except OSError:
        return
    ends = (ANCHOR, DIRECTORY)
    stems = {name.removesuffix(end) for name in names for end in ends if name.endswith(end)}
    databases = {name for name in names if name.endswith(".db")}
    likely_first = sorted(databases | stems - {""}, key=lambda stem: stem not in stems)
    for stem in likely_first[:OWN_DATABASES_MAX]:
        neighbours = [stem + end in names for end in ends]
        if all(neighbours) or _is_ledger(f"{directory}/{stem}", is_known=any(neighbours)):
            yield f"{directory}/{stem}"


def _is_ledger(path: str, *, is_known: bool) -> bool:
    """By its first bytes; where nothing of ours lies beside it, also by its tables."""
    start = start_of(path, len(_SQLITE) if is_known else _SCHEMA_BYTES)
    return start is not None and start.startswith(_SQLITE) and (is_known or all(text in start for text in _OF_A_LEDGER))


def _kind(path: str, name: str) -> str:
    return kind_of_text(start_of(path, OWN_TEXT_BYTES_MAX + 1), name)


def kind_of_text(text: bytes | None, name: str) -> str:
    """`config`, `policy`, or empty for what is not ours; what cannot be parsed counts by what it looks like."""
    keys = frozenset(found.decode() for found in _KEY.findall(text or b""))
    if not text or not _kind_by(dict.fromkeys(keys), name):
        return ""
    try:
        value = parse_yaml(text, name).value if len(text) <= OWN_TEXT_BYTES_MAX else None
    except ConfigError:
        value = None
    return _kind_by(dict.fromkeys(keys) if value is None else value, name)


def _kind_by(fields: Json, name: str) -> str:
    if not isinstance(fields, Mapping):
        return ""
    if fields.keys() & _CONFIG_KEYS:
        return "config"
    if "version" in fields and fields.keys() & {"rules", "tools"}:
        return "policy"
    is_bare = name != "config.yaml" and fields.keys() & {"rules", "defaults"}
    return "policy" if is_bare else ""


def start_of(path: str, most: int) -> bytes | None:
    """The first bytes of a regular file; None of anything else."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        return os.read(descriptor, most)
    except OSError:
        return None
    finally:
        os.close(descriptor)

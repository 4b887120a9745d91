"""What a git repository's own configuration would make git start or read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

LEVELS_MAX = 64
CONFIG_BYTES_MAX = 1_048_576

_SECTION = re.compile(r'\s*\[\s*([A-Za-z0-9.-]+)\s*(?:"((?:[^"\\]|\\.)*)")?\s*\]')
_ENTRY = re.compile(r"\s*([A-Za-z][A-Za-z0-9-]*)\s*(?:=\s*(.*?))?\s*$")
_PLAIN = frozenset({"", "true", "false", "yes", "no", "on", "off", "0", "1"})
_NAMES_PROGRAM = re.compile(
    r"diff\.external|diff\..+\.(command|textconv)|filter\..+\.(clean|smudge|process)|include\.path|includeif\..+\.path"
)
_FSMONITOR = "core.fsmonitor"


def named_programs(start: str) -> list[str]:
    """The settings by which the repository around a directory names programs, or files with more settings."""
    found: dict[str, None] = {}
    for config in _configs(Path(start)):
        try:
            with config.open("rb") as file:
                text = file.read(CONFIG_BYTES_MAX + 1).decode("utf-8", "replace")
        except OSError:
            continue
        if len(text) > CONFIG_BYTES_MAX:
            return [f"{config.name}, which is too long to be read"]
        found |= dict.fromkeys(_suspects(text))
    return list(found)


def _configs(start: Path) -> Iterator[Path]:
    for _, folder in zip(range(LEVELS_MAX), (start, *start.parents), strict=False):
        own = folder / ".git"
        if own.is_file():
            own = _linked(own)
        elif not own.is_dir():
            if not ((folder / "HEAD").exists() and (folder / "objects").is_dir()):
                continue
            own = folder
        yield from (own / "config", own / "config.worktree")
        try:
            common = (own / "commondir").read_text().strip()
        except (OSError, ValueError):
            return
        yield own / common / "config"
        return


def _linked(file: Path) -> Path:
    """The place that a `.git` file, of a worktree or a submodule, leads to."""
    try:
        text = file.read_text()[:4096]
    except (OSError, ValueError):
        return file.parent
    return file.parent / text.removeprefix("gitdir:").strip()


def _suspects(text: str) -> Iterator[str]:
    section = ""
    for line in text.split("\n"):
        rest = line
        header = _SECTION.match(line)
        if header:
            section = header[1].lower() + (f".{header[2]}" if header[2] is not None else "")
            rest = line[header.end() :]
        entry = _ENTRY.match(rest)
        if entry is None:
            continue
        name = f"{section}.{entry[1].lower()}"
        value = (entry[2] or "").strip('"').lower()
        if _NAMES_PROGRAM.fullmatch(name) or (name == _FSMONITOR and value not in _PLAIN):
            yield name

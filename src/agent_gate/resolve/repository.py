"""The git repository that a directory belongs to, and why git may not be let near it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agent_gate.resolve.git_config import CONFIG_BYTES_MAX, Setting, Unreadable, read_settings, suspects

LEVELS_MAX = 64
_HEAD = re.compile(r"ref: refs/\S+|[0-9a-f]{40}|[0-9a-f]{64}")
_POINTER_BYTES_MAX = 4_096
_USER_IN_URL = re.compile(r"[a-z0-9+.-]+://[^/@]*@", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Repository:
    """Real paths; only what git itself would take for a repository is one."""

    top: str
    """The work tree."""
    directories: tuple[str, ...]
    """Directories of its own things: the git directory and, for a worktree, the one that it shares."""

    @property
    def tops(self) -> tuple[str, ...]:
        """Its work tree, and the one that it was made from: the same names stand in both for the same history."""
        main, name = os.path.split(self.directories[-1])
        return (self.top, main) if name == ".git" and main != self.top else (self.top,)

    @property
    def own_paths(self) -> tuple[str, ...]:
        """Those, and the file that leads to them where there is one."""
        return (f"{self.top}/.git", *self.directories)

    def configs(self) -> Iterator[Path]:
        for folder in self.directories:
            yield from (Path(folder, "config"), Path(folder, "config.worktree"))

    def borrows(self) -> bool:
        """True where it takes objects from another repository."""
        return any(os.path.exists(f"{folder}/objects/info/alternates") for folder in self.directories)


class NoRepository(Exception):
    """Something that git would try to use, and that is not in order."""


def find_repository(start: str) -> Repository | None:
    """The nearest upwards, as git looks for it; raises NoRepository where there is one that cannot be known."""
    folder = Path(start)
    for _, top in zip(range(LEVELS_MAX), (folder, *folder.parents), strict=False):
        own = top / ".git"
        if own.is_symlink():
            raise NoRepository(f"`{own}` is a link")
        if own.is_file():
            return _repository(top, _linked(own))
        if own.is_dir():
            return _repository(top, own)
        if (top / "HEAD").exists() and (top / "objects").is_dir():
            raise NoRepository(f"`{top}` is a bare repository")
    return None


def refused_settings(repository: Repository) -> list[str]:
    """The settings of its own that are not known to be harmless, or why they cannot be read."""
    found: dict[str, None] = {}
    for config in repository.configs():
        try:
            settings = [setting for setting in _settings(config) if not _names_top(setting, config, repository)]
            found |= dict.fromkeys(suspects(settings))
        except Unreadable as why:
            found[f"{config.name}: {why}"] = None
    return list(found)


def _names_top(setting: Setting, config: Path, repository: Repository) -> bool:
    """As in every submodule: the work tree is where we took it to be."""
    return setting.name == "core.worktree" and os.path.realpath(config.parent / setting.value) == repository.top


def tells_credentials(repository: Repository) -> bool:
    """Tell whether an address in its settings holds a user, and so perhaps a password."""
    for config in repository.configs():
        try:
            settings = _settings(config)
        except Unreadable:
            return True
        if any(_USER_IN_URL.match(setting.value) for setting in settings):
            return True
    return False


def _settings(config: Path) -> list[Setting]:
    try:
        with config.open("rb") as file:
            content = file.read(CONFIG_BYTES_MAX + 1)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise Unreadable(f"cannot be read ({error.strerror})") from None
    return list(read_settings(content))


def _repository(top: Path, own: Path) -> Repository:
    directory = Path(os.path.realpath(own))
    common = directory
    pointer = directory / "commondir"
    if pointer.exists():
        common = Path(os.path.realpath(directory / _text(pointer)))
    if not _is_real(directory, common):
        raise NoRepository(f"`{own}` is no git directory")
    return Repository(os.path.realpath(top), tuple(dict.fromkeys((str(directory), str(common)))))


def _is_real(directory: Path, common: Path) -> bool:
    return (
        (directory / "HEAD").is_file()
        and _HEAD.fullmatch(_text(directory / "HEAD")) is not None
        and (common / "objects").is_dir()
        and (common / "refs").is_dir()
    )


def _linked(file: Path) -> Path:
    """The place that a `.git` file, of a worktree or a submodule, leads to."""
    text = _text(file)
    if not text.startswith("gitdir: "):
        raise NoRepository(f"`{file}` leads nowhere")
    return file.parent / text.removeprefix("gitdir: ")


def _text(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            text = opened.read(_POINTER_BYTES_MAX).decode()
    except (OSError, UnicodeDecodeError):
        raise NoRepository(f"`{file}` cannot be read") from None
    return text.rstrip("\n")

"""The gate's own files: the one list that every door protects."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from agent_gate.model.ledger_names import ledger_names
from agent_gate.resolve.agent_settings import settings_of_agents
from agent_gate.resolve.installation import installation
from agent_gate.resolve.noted import LEDGER, PROTECTED, SECRET, Noted, note, noted, state_directory
from agent_gate.resolve.own_nearby import look_into
from agent_gate.resolve.surroundings import real_paths

if TYPE_CHECKING:
    from agent_gate.config.settings import Config


@dataclass(frozen=True, slots=True)
class Start:
    """Paths that one start of the gate names, absolute: the directory of the process may change later."""

    working_dir: str
    ledgers: tuple[str, ...] = ()
    secret: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        working_dir: str,
        ledgers: Sequence[str | Path] = (),
        secret: Sequence[str | Path] = (),
        protected: Sequence[str | Path] = (),
    ) -> Start:
        return cls(working_dir, *(tuple(map(os.path.abspath, paths)) for paths in (ledgers, secret, protected)))


class Own(NamedTuple):
    """Real paths, files or whole directories, and the names that lead to them."""

    secret: tuple[str, ...] = ()
    """Neither read nor written: what holds tokens and keys, and the record."""
    protected: tuple[str, ...] = ()
    """Not written."""
    by_name: tuple[str, ...] = ()
    """Not written either: settings of agents and the installation, which count by name alone."""

    @property
    def unwritten(self) -> tuple[str, ...]:
        return self.protected + self.by_name


class Named(NamedTuple):
    """List what a configuration names beside itself."""

    secret: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()


def named_by(path: str | Path | None, config: Config | None) -> Named:
    """The configuration itself, and the files of the gate that it names, by absolute paths."""
    if path is None or config is None:
        return Named()
    tls = config.gateway.tls
    secret = [str(path), *([tls.key] if tls else []), *ledger_names(config.storage.path)]
    return Named(tuple(map(os.path.abspath, secret)), (os.path.abspath(tls.cert),) if tls else ())


def find_own(start: Start) -> Own:
    """All that is the gate's own now, also under names that do not exist yet."""
    around, others = look_into(start.working_dir), noted()
    ledgers = (*start.ledgers, *around.ledgers)
    secret = dict.fromkeys(
        (
            *real_paths((*start.secret, *around.configs)),
            *_files_of(real_paths(ledgers)),
            *_of_others(others, SECRET),
            *(name for db in _of_others(others, LEDGER) for name in ledger_names(db)),
            *real_paths(filter(None, (state_directory(),))),
        )
    )
    protected = dict.fromkeys((*real_paths((*start.protected, *around.policies)), *_of_others(others, PROTECTED)))
    by_name = dict.fromkeys((*real_paths(settings_of_agents(start.working_dir)), *installation(start.working_dir)))
    return Own(
        tuple(secret),
        tuple(path for path in protected if path not in secret),
        tuple(path for path in by_name if path not in secret and path not in protected),
    )


def note_own(start: Start) -> None:
    """Tell other gates of this user what this one names."""
    kinds = ((SECRET, start.secret), (PROTECTED, start.protected), (LEDGER, start.ledgers))
    note(Noted(kind, os.path.realpath(path)) for kind, paths in kinds for path in paths)


def _files_of(ledgers: Iterable[str]) -> tuple[str, ...]:
    """SQLite puts its journals beside the real database, we put the anchor and keys beside the name that was given."""
    return real_paths(name for db in ledgers for name in ledger_names(db))


def _of_others(entries: Iterable[Noted], kind: str) -> Iterator[str]:
    return (entry.path for entry in entries if entry.kind == kind)

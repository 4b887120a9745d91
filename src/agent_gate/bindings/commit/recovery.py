"""A commit that a process left half-way, brought to an end by the next one: finished, rolled back, or told as it is."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum

from agent_gate.bindings.commit import steps
from agent_gate.bindings.commit.folders import Folders, sync_file_systems
from agent_gate.bindings.commit.journal import decode
from agent_gate.bindings.commit.units import Unit
from agent_gate.ports import FinishCommit, FinishedCommit


def finisher(file_list: Callable[[str], str]) -> FinishCommit:
    """`file_list` gives, by call, where the names of what was staged are noted."""

    def finish(call_id: str, journal: bytes | None) -> FinishedCommit:
        noted = file_list(call_id)
        if journal is None:
            steps.remove_noted(noted)
            return FinishedCommit(made=False)
        recovered = recover(journal)
        steps.forget_names(noted)
        return FinishedCommit(recovered.end is End.FINISHED, recovered.paths if recovered.end is End.IN_DOUBT else ())

    return finish


class End(Enum):
    FINISHED = "finished"
    ROLLED_BACK = "rolled back"
    IN_DOUBT = "in doubt"


@dataclass(frozen=True, slots=True)
class Recovered:
    end: End
    paths: tuple[str, ...] = ()
    """Those that somebody else changed meanwhile."""


def recover(journal: bytes) -> Recovered:
    """Safe to be broken off and begun again: each step is recognised by what stands where. May wait for a disk."""
    units = decode(journal).units
    with Folders() as folders:
        recovered = _recover(units, folders)
    with suppress(OSError):  # of a directory that is gone, there is nothing to make durable
        sync_file_systems(sorted({os.path.dirname(unit.path) or "/" for unit in units}))
    return recovered


def _recover(units: Sequence[Unit], folders: Folders) -> Recovered:
    made = [steps.is_made(unit, folders) for unit in units]
    waiting = [unit for unit, is_made in zip(units, made, strict=True) if is_made is False]
    foreign = tuple(unit.path for unit, is_made in zip(units, made, strict=True) if is_made is None)
    done = [unit for unit, is_made in zip(units, made, strict=True) if is_made]
    if not done and not foreign:
        _clear_staged(units, folders)
        return Recovered(End.ROLLED_BACK)
    if not foreign and not all(steps.can_be_made(unit, folders) for unit in waiting):
        return _roll_back(done, units, folders)
    foreign += _finish(waiting, folders)
    for unit in units:
        steps.clear(unit, folders)
    _clear_staged(units, folders)
    return Recovered(End.IN_DOUBT if foreign else End.FINISHED, foreign)


def _finish(waiting: Sequence[Unit], folders: Folders) -> tuple[str, ...]:
    failed = []
    for unit in waiting:
        try:
            if not steps.can_be_made(unit, folders):
                raise OSError
            steps.make(unit, folders)
        except OSError:
            failed.append(unit.path)
    return tuple(failed)


def _roll_back(done: Sequence[Unit], units: Sequence[Unit], folders: Folders) -> Recovered:
    failed = []
    for unit in reversed(done):
        try:
            steps.take_back(unit, folders)
        except OSError:
            failed.append(unit.path)
    _clear_staged(units, folders)
    return Recovered(End.IN_DOUBT if failed else End.ROLLED_BACK, tuple(failed))


def _clear_staged(units: Sequence[Unit], folders: Folders) -> None:
    for unit in units:
        with suppress(OSError):
            steps.clear_staged(unit, folders)

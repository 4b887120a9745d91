"""A commit that a process left half-way, brought to an end by the next one: finished, rolled back, or told as it is."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum

from agent_gate.ports.tools import FinishCommit, FinishedCommit
from agent_gate.resolve.commit import steps
from agent_gate.resolve.commit.folders import Folders, sync_file_systems
from agent_gate.resolve.commit.journal import decode
from agent_gate.resolve.commit.units import META, Unit


def finisher(file_list: Callable[[str], str]) -> FinishCommit:
    """`file_list` gives, by call, where the names of what was staged are noted."""

    def finish(call_id: str, journal: bytes | None) -> FinishedCommit:
        noted = file_list(call_id)
        if journal is None:
            steps.remove_noted(noted)
            return FinishedCommit(made=False)
        try:
            recovered = recover(journal)
        except OSError:
            recovered = Recovered(End.IN_DOUBT, tuple(unit.path for unit in decode(journal).units))
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
    """Safe to be broken off and begun again: each step is recognised by what stands where. May wait for a disk.

    All of it is durable before what was replaced goes, and before anybody is told.
    """
    units = decode(journal).units
    with Folders() as folders:
        recovered = _recover(units, folders)
        places = sorted({os.path.dirname(unit.path) or "/" for unit in units})
        sync_file_systems([place for place in places if os.path.isdir(place)])
        if recovered.end is not End.ROLLED_BACK:
            for unit in units:
                steps.clear(unit, folders)
            _clear_staged(units, folders)
    return recovered


def _recover(units: Sequence[Unit], folders: Folders) -> Recovered:
    made = {unit.path: steps.is_made(unit, folders) for unit in units}
    waiting = [unit for unit in units if made[unit.path] is False]
    foreign = tuple(unit.path for unit in units if made[unit.path] is None)
    done = [unit for unit in units if made[unit.path]]
    if not foreign and not (done and all(steps.can_be_made(unit, folders) for unit in waiting)):
        return _roll_back(done, units, folders)
    # Permissions and times are set one after the other: what is made in part is made once more.
    foreign += _finish(waiting + [unit for unit in done if unit.step == META], folders)
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

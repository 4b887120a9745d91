"""A control group that bounds the number of processes where resource limits do not hold: for root.

An ordinary user needs none of this, and may not have it either.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from itertools import count
from pathlib import Path

_numbers = count(1)
_REMOVE_TRIES_MAX = 50
_REMOVE_PAUSE_S = 0.01


class ProcessBound:
    """A group of its own for one command; it is gone when closed."""

    def __init__(self, base: Path, processes_max: int) -> None:
        self._group = base / f"agent-gate-{os.getpid()}-{next(_numbers)}"
        self._group.mkdir()
        try:
            (self._group / "pids.max").write_text(str(processes_max))
        except OSError:
            self._group.rmdir()
            raise

    def add(self, pid: int) -> None:
        """With all that it will start; what it has started already stays outside."""
        (self._group / "cgroup.procs").write_text(str(pid))

    def close(self) -> None:
        """Wait until all of its processes have ended; the last may still be on its way."""
        for _ in range(_REMOVE_TRIES_MAX):
            try:
                self._group.rmdir()
                return
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(_REMOVE_PAUSE_S)


@cache
def place_for_bounds(proc: str = "/proc/self") -> Path | None:
    """The group in which new ones with a bound can be made; None where that is not possible, or not needed."""
    if os.geteuid() != 0:
        return None
    with suppress(OSError):
        for base in _bases(Path(proc)):
            if _works(base):
                _remove_abandoned(base)
                return base
    return None


def _bases(proc: Path) -> Iterator[Path]:
    own = dict(_own_groups((proc / "cgroup").read_text()))
    for line in (proc / "mounts").read_text().splitlines():
        _, mount, kind, options, *_ = line.split(" ")
        if kind == "cgroup" and "pids" in options.split(",") and "pids" in own:
            yield Path(mount + own["pids"])
        elif kind == "cgroup2" and "" in own:
            group = Path(mount + own[""])
            yield from (at for at in (group, *group.parents) if at.is_relative_to(mount) and _shares_pids(at))


def _own_groups(text: str) -> Iterator[tuple[str, str]]:
    """The path of this process's group in each hierarchy, by controller; the unified one has none."""
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            yield controller, path.rstrip("/")


def _shares_pids(group: Path) -> bool:
    with suppress(OSError):
        return "pids" in (group / "cgroup.subtree_control").read_text().split()
    return False


def _remove_abandoned(base: Path) -> None:
    """Groups of gates that were killed before they could."""
    for group in base.glob("agent-gate-*-*"):
        pid = group.name.split("-")[2]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists():
            with suppress(OSError):
                group.rmdir()


def _works(base: Path) -> bool:
    try:
        ProcessBound(base, 1).close()
    except OSError:
        return False
    return True

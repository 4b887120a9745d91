"""How much memory a piece of work took at its peak."""

from __future__ import annotations

import re
import resource
from contextlib import suppress
from pathlib import Path

_STATUS = Path("/proc/self/status")
_PEAK = re.compile(r"VmHWM:\s+([0-9]+) kB")
_RESET_PEAK = "5"


class Growth:
    """The peak since this object was made, beyond what was in use then."""

    def __init__(self) -> None:
        # Where the reset is refused, an earlier peak can hide a later one; nothing better is to be had there.
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text(_RESET_PEAK)
        self._before = _peak_kb()

    def mb(self) -> float:
        return (_peak_kb() - self._before) / 1024


def _peak_kb() -> int:
    try:
        found = _PEAK.search(_STATUS.read_text())
    except OSError:
        found = None
    return int(found[1]) if found else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

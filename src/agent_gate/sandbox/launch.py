"""A command made ready to be started: the outer command line, the descriptors it inherits, and how it reports."""

from __future__ import annotations

import os
import select
import shutil
from dataclasses import dataclass, field


@dataclass(slots=True)
class Launch:
    """Everything that the outer process, which makes the sandbox, is started with."""

    argv: tuple[str, ...] = ()
    lent: tuple[int, ...] = ()
    """Descriptors that it inherits and that belong to somebody else."""
    own: list[int] = field(default_factory=list)
    """Those that it inherits and that are closed here as soon as it has them."""
    reports: int = -1
    """A descriptor on which it reports what it started and how that ended, one JSON object a line."""
    starts_on: int = -1
    """The command begins when `starts_with` is written there; where this is closed before, it never begins."""
    starts_with: bytes = b"+"
    """Short enough for a pipe to take it whole or not at all."""
    lifeline: int = -1
    """Held open here as long as the command may run; when it closes, also because the gate was killed, all is ended."""
    scratch: str = ""
    """A directory for the command's temporary files, removed with the launch."""
    tells_pid: bool = False
    """True where it reports the first process inside, with whose end all others end; else it adopts and ends them."""
    besides: int = 1
    """Number of processes below the outer one that are not the command's, besides its first one."""

    @property
    def inherited(self) -> tuple[int, ...]:
        return (*self.own, *self.lent)

    def file(self, data: bytes) -> str:
        """The number, as a word, of a file in memory that the outer process can read."""
        number = os.memfd_create("agent-gate", os.MFD_CLOEXEC)
        self.own.append(number)
        left = memoryview(data)
        while left:
            left = left[os.write(number, left) :]
        os.lseek(number, 0, os.SEEK_SET)
        return str(number)

    def handed_over(self) -> None:
        while self.own:
            os.close(self.own.pop())

    def begin(self) -> None:
        assert len(self.starts_with) <= select.PIPE_BUF, "it would begin with a part"
        os.write(self.starts_on, self.starts_with)
        os.close(self.starts_on)
        self.starts_on = -1

    def close(self) -> None:
        self.handed_over()
        for number in (self.reports, self.starts_on, self.lifeline):
            if number >= 0:
                os.close(number)
        self.reports = self.starts_on = self.lifeline = -1
        if self.scratch:
            shutil.rmtree(self.scratch, ignore_errors=True)

"""Turns at a project's state: each change is computed on top of the one before it, and they are committed together.

A series of turns has the project's lock until all of its changes are committed. What was computed on top of a change
that then fails is refused by the writer, because the project never comes to the state that it stands on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

from agent_gate.ledger.sqlite.bounds import DEFAULT_BOUNDS, LedgerBounds
from agent_gate.ledger.sqlite.locks import ProjectLocks, release
from agent_gate.model.committed import Applied, Committed
from agent_gate.model.errors import StorageError
from agent_gate.model.project import ProjectState
from agent_gate.model.work import StateChange, Work


class _Series:
    """The changes that one process computes under one hold of a project's lock."""

    def __init__(self, descriptor: int, state: ProjectState, bounds: LedgerBounds) -> None:
        self.state = state
        """The state that the changes so far lead to, once they are committed."""
        self._descriptor, self._bounds = descriptor, bounds
        self._works = self._changes = self._bytes = 0
        self._ends_at = time.monotonic() + bounds.turns_s
        self._is_broken = False
        self._all_heard: asyncio.Future[None] | None = None

    @property
    def waits(self) -> bool:
        """True while the ledger has not yet said what becomes of all of it."""
        return self._works > 0

    @property
    def is_over(self) -> bool:
        """True where nothing more may stand on it: a change has failed, or others are due."""
        bounds = self._bounds
        if self._is_broken or self._changes >= bounds.turns_max or self._bytes >= bounds.turns_bytes_max:
            return True
        return time.monotonic() >= self._ends_at

    def add(self, change: StateChange | None) -> None:
        """Work that stands on `state`."""
        self._works += 1
        if change is not None:
            self._changes, self._bytes = self._changes + 1, self._bytes + len(change.document)
            self.state = ProjectState(self.state.version + 1, change.value, change.snapshot_id, change.document)

    def hear(self, change: StateChange | None, committing: asyncio.Future[Committed]) -> None:
        """Note what became of such work."""
        self._works -= 1
        if change is not None and not _is_applied(committing):
            self._is_broken = True
        if self._works == 0 and self._all_heard is not None and not self._all_heard.done():
            self._all_heard.set_result(None)

    async def end(self) -> None:
        """Wait for the ledger's word on all of it."""
        while self.waits:
            self._all_heard = asyncio.get_running_loop().create_future()
            await self._all_heard

    def let_go(self) -> None:
        release(self._descriptor)


class _Place:
    """A project whose state somebody wants to change."""

    def __init__(self) -> None:
        self.free = asyncio.Event()
        """All who wait are woken together, so that their works are one group; a lock would wake one in each turn."""
        self.free.set()
        self.visitors = 0
        """Tasks that have a turn or wait for one."""
        self.series: _Series | None = None
        self.refusal: StorageError | None = None
        """Reason why the lock was not to be had, the last time that it was not."""

    async def wait(self) -> None:
        """Until nobody has a turn; where the lock is not to be had, all who wait for it are refused together."""
        known = self.refusal
        while not self.free.is_set():
            await self.free.wait()
            if self.refusal is not known:
                assert self.refusal is not None
                raise self.refusal


class _Turn:
    """One task's turn, until it commits something or its block ends."""

    def __init__(self, place: _Place, state: ProjectState, commit: Callable[[Work], Awaitable[Committed]]) -> None:
        self.state = state
        self._place, self._commit = place, commit
        self._is_over = False

    def commit(self, work: Work) -> Awaitable[Committed]:
        committing = self._commit(work)
        self.pass_on()
        return committing

    def pass_on(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._place.free.set()


class Turns:
    def __init__(
        self, locks: ProjectLocks, current: Callable[[str], ProjectState], bounds: LedgerBounds = DEFAULT_BOUNDS
    ) -> None:
        """`current` reads a project's state as it was last committed."""
        self._locks, self._current, self._bounds = locks, current, bounds
        self._places: dict[str, _Place] = {}

    @asynccontextmanager
    async def taken(
        self, project: str, commit: Callable[[Work], Awaitable[Committed]], *, alone: bool
    ) -> AsyncIterator[_Turn]:
        """One turn; `alone`: on a state that is itself committed."""
        place = self._places.setdefault(project, _Place())
        place.visitors += 1
        try:
            await place.wait()
            place.free.clear()
            try:
                if place.series is not None and (alone or place.series.is_over):
                    await place.series.end()
                    self._end(place)
                if place.series is None:
                    place.series = await self._begun(project, place)
            except BaseException:
                place.free.set()
                raise
            turn = _Turn(place, place.series.state, commit)
            try:
                yield turn
            finally:
                turn.pass_on()
        finally:
            place.visitors -= 1
            self._end_if_idle(project, place)

    async def _begun(self, project: str, place: _Place) -> _Series:
        try:
            descriptor = await self._locks.take(project)
        except StorageError as error:
            place.refusal = error
            raise
        try:
            return _Series(descriptor, self._current(project), self._bounds)
        except BaseException:
            release(descriptor)
            raise

    def note(self, work: Work, committing: asyncio.Future[Committed]) -> None:
        """Work that was given to the writer within a turn; what is done already was not even taken."""
        place = self._places.get(work.project)
        if place is None or place.series is None or place.free.is_set() or committing.done():
            return
        place.series.add(work.find(StateChange))
        committing.add_done_callback(partial(self._hear, work, place, place.series))

    def _hear(self, work: Work, place: _Place, series: _Series, committing: asyncio.Future[Committed]) -> None:
        series.hear(work.find(StateChange), committing)
        self._end_if_idle(work.project, place)

    def _end_if_idle(self, project: str, place: _Place) -> None:
        if place.visitors or (place.series is not None and place.series.waits):
            return
        self._end(place)
        if self._places.get(project) is place:
            del self._places[project]

    @staticmethod
    def _end(place: _Place) -> None:
        if place.series is not None:
            place.series.let_go()
            place.series = None


def _is_applied(committing: asyncio.Future[Committed]) -> bool:
    if committing.cancelled() or committing.exception() is not None:
        return False
    return isinstance(committing.result(), Applied)

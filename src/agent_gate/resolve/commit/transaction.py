"""One set of changes on its way to the disk: staged and durable, then moved into place step by step, or taken back."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from agent_gate.model.errors import GateError, Problem, ToolError
from agent_gate.model.visible import visible
from agent_gate.resolve.commit import steps
from agent_gate.resolve.commit.change import Change
from agent_gate.resolve.commit.folders import Folders, sync_file_systems
from agent_gate.resolve.commit.layer import conflict
from agent_gate.resolve.commit.node import Identity
from agent_gate.resolve.commit.staging import stage
from agent_gate.resolve.commit.units import ADD, META, SWAP, TEMPORARY, Group, Meta, Unit, in_order


class Transaction:
    """Call it in this order: `stage`, `commit`, `tidy`; `abandon` where it ends before `commit`."""

    def __init__(self, call_id: str, changes: Sequence[Change], file_list: str) -> None:
        """`file_list` is where the names of what is staged stand until the ledger has them."""
        self._groups = in_order(changes)
        self._names = [f"{TEMPORARY}{call_id}-{number}" for number in range(len(self._groups))]
        self._file_list = file_list
        self.units: list[Unit] = []

    def stage(self) -> None:
        """Everything beside its place, and durable there; conflicts are found, and nothing has changed yet."""
        with _told("staged"), Folders() as folders:
            steps.note_names(self._file_list, [(group.top.path, name) for group, name in self._named()])
            for group, name in self._named():
                _refuse_if_changed(group, folders)
                with _at(group.top.path):
                    self.units.append(_unit(group, name, folders))
            self._sync()

    def commit(self) -> None:
        """Every step, or none: what was made before one that fails is taken back."""
        made: list[Unit] = []
        try:
            with _told("committed"), Folders() as folders:
                for group, unit in zip(self._groups, self.units, strict=True):
                    with _locked(group, folders):
                        _refuse_if_changed(group, folders)
                        steps.make(unit, folders)
                    made.append(unit)
                self._sync()
        except GateError as error:
            lost = self._take_back(made)
            if lost:
                raise in_doubt(lost) from error
            raise

    def tidy(self) -> None:
        """Remove what was replaced; the ledger has it."""
        with Folders() as folders:
            for unit in self.units:
                steps.clear(unit, folders)
        steps.forget_names(self._file_list)

    def abandon(self) -> None:
        """Remove what was staged; nothing has changed."""
        with Folders() as folders:
            for group, name in self._named():
                with suppress(OSError):
                    folders.remove_tree(f"{os.path.dirname(group.top.path)}/{name}")
        steps.forget_names(self._file_list)

    def _named(self) -> Iterator[tuple[Group, str]]:
        return zip(self._groups, self._names, strict=True)

    def _take_back(self, made: Sequence[Unit]) -> list[str]:
        """The paths that could not be brought back, because somebody else changed them; the rest is, durably."""
        lost = []
        with Folders() as folders:
            for unit in reversed(made):
                try:
                    steps.take_back(unit, folders)
                except OSError:
                    lost.append(unit.path)
            for unit in self.units:
                if unit.path not in lost:
                    with suppress(OSError):
                        steps.clear_staged(unit, folders)
        try:
            self._sync()
        except OSError:
            lost = [unit.path for unit in made]
        steps.forget_names(self._file_list)
        return lost

    def _sync(self) -> None:
        sync_file_systems(sorted({os.path.dirname(group.top.path) or "/" for group in self._groups}))


def in_doubt(paths: Sequence[str]) -> ToolError:
    shown = ", ".join(f"`{visible(path)}`" for path in paths[:10])
    more = f" and {len(paths) - 10} more" if len(paths) > 10 else ""
    return ToolError(
        f"another program changed {shown}{more} during the commit, which was broken off half-way",
        code=2007,
        suggestion="look at these files",
    )


def _unit(group: Group, name: str, folders: Folders) -> Unit:
    top, step = group.top, group.step
    if step == META:
        assert top.before is not None
        assert top.after is not None
        is_file = top.after.kind == "file"
        was = Meta(top.before.mode, top.before.mtime_ns if is_file else None)
        becomes = Meta(top.after.mode, top.after.mtime_ns if is_file else None)
        return Unit(step, top.path, before=top.identity, was=was, becomes=becomes)
    staged = stage(group, name, folders) if step in (ADD, SWAP) else None
    return Unit(step, top.path, name, staged, top.identity)


def _refuse_if_changed(group: Group, folders: Folders) -> None:
    """Check that what stands at each path is what was seen there when the command had ended."""
    for change in (group.top, *group.below):
        if change is not group.top and change.identity is None:
            continue
        status = folders.status(change.path)
        if group.is_directory_kept and change.identity is not None and change.identity.is_same_thing(status):
            continue  # it was touched by what is staged in it; a mode is not worth more
        if (Identity.of(status) if status else None) != change.identity:
            raise GateError.of(conflict(change.path))


@contextmanager
def _locked(group: Group, folders: Folders) -> Iterator[None]:
    """Against a gate that is writing the same file in place at this moment."""
    if group.top.before is None or group.top.before.kind != "file" or group.step == META:
        yield
        return
    folder, name = folders.of(group.top.path)
    try:
        number = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=folder)
    except PermissionError:
        yield
        return
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise GateError.of(conflict(group.top.path)) from None
    finally:
        os.close(number)


@contextmanager
def _at(path: str) -> Iterator[None]:
    """Errors with a path that people know, instead of the name that waits beside it."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None


@contextmanager
def _told(done: str) -> Iterator[None]:
    """Say an error of the system in the words of the gate."""
    try:
        yield
    except GateError:
        raise
    except OSError as error:
        where = f"`{visible(os.fsdecode(error.filename))}`: " if error.filename else ""
        problem = Problem(
            2003,
            f"what the command wrote could not be {done}: {where}{error.strerror or error}; nothing was written",
            "mend that, and call again",
            "perform",
        )
        raise GateError.of(problem) from None

"""A proposal: what a command wrote, waiting in its layers to be shown, staged and committed, or thrown away."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from agent_gate.model.change import FileChange
from agent_gate.model.errors import Problem, ToolError
from agent_gate.model.tool import Json
from agent_gate.resolve.commit import journal
from agent_gate.resolve.commit.change import Change, manifest_hash
from agent_gate.resolve.commit.layer import Found
from agent_gate.resolve.commit.links import Links
from agent_gate.resolve.commit.showing import shown_changes
from agent_gate.resolve.commit.transaction import Transaction
from agent_gate.resolve.copies import Copies
from agent_gate.resolve.scratch import Scratch
from agent_gate.resolve.threads import FileThreads


class FileProposal:
    """Changes to files that wait to be agreed to."""

    def __init__(
        self,
        result: Json,
        found: Found,
        threads: FileThreads,
        file_list: Callable[[str], str],
        scratch: Scratch | None = None,
        failure: Problem | None = None,
        copies: Copies | None = None,
    ) -> None:
        """`file_list` gives, by call, where the names of what is staged are noted; `scratch` goes in the end.
        `copies` are those of the simulation that this is a step of.

        May wait for a disk.
        """
        self.result = result
        self.problem: Problem | None = found.problem
        self.failure = failure
        self._copies = copies
        links = Links(found.changes, copies.host) if copies is not None else Links(found.changes)
        self.changes: tuple[FileChange, ...] = tuple(
            change.to_judge(links.end_of(change.path)) for change in found.changes
        )
        self.manifest_hash = manifest_hash(found.changes)
        self._changes: list[Change] = found.changes
        self._threads, self._file_list, self._scratch = threads, file_list, scratch
        self._transaction: Transaction | None = None
        self._committed = False

    async def shown(self) -> list[dict[str, Json]]:
        return await self._threads.run(partial(shown_changes, self._changes))

    async def stage(self, call_id: str) -> bytes:
        self._transaction = Transaction(call_id, self._changes, self._file_list(call_id))
        return await self._threads.run(partial(self._stage, self._transaction))

    def _stage(self, transaction: Transaction) -> bytes:
        transaction.stage()
        return journal.encode(transaction.units, self._changes)

    async def commit(self) -> None:
        assert self._transaction is not None, "stage comes first"
        self._committed = True
        await self._threads.run(self._transaction.commit)
        await self._threads.run(self._transaction.tidy)

    async def carry(self) -> None:
        if self._copies is None:
            return
        try:
            await self._threads.run(partial(self._copies.apply, self._changes))
        except OSError as error:
            detail = f"what the command wrote could not be kept for the next step: {error.strerror or error}"
            raise ToolError(detail, code=2006, suggestion="make room, or run it for good") from None

    async def discard(self) -> None:
        await self._threads.run(self._discard)

    def _discard(self) -> None:
        if self._transaction is not None and not self._committed:
            self._transaction.abandon()
        if self._scratch is not None:
            self._scratch.remove()

"""Projects: made, locked, archived and opened again, each time by an entry in the project's own chain.

A locked project refuses calls for the time being, an archived one because it is finished; `unlock` opens either again,
since an entry that says so is worth more than a rule that nothing ends by mistake. `default` can be locked, but not
archived: agents that name no project have it. Names that begin with `_` belong to the gate.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent_gate.history.state import unknown_project
from agent_gate.model.bounds import STATE_BYTES_MAX
from agent_gate.model.codec import CodecError, canonical, normalise
from agent_gate.model.committed import Applied, NotOpen
from agent_gate.model.entry import Draft, Kind
from agent_gate.model.errors import GateError, Problem, ToolError
from agent_gate.model.moment import iso
from agent_gate.model.schema import validator
from agent_gate.model.tool import Json
from agent_gate.model.work import CreateProject, SetStatus, Work
from agent_gate.ports.ledger import Ledger
from agent_gate.ports.reading import Reader
from agent_gate.ports.surroundings import Clock, Ids

NAME_CHARS_MAX = 64
_NAME = re.compile(rf"[a-z0-9][a-z0-9_-]{{0,{NAME_CHARS_MAX - 1}}}")

_WAYS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "lock": ("locked", ("open",)),
    "archive": ("archived", ("open", "locked")),
    "unlock": ("open", ("locked", "archived")),
}
"""Each change: the status it leads to, and those it starts from."""


@dataclass(frozen=True, slots=True)
class Project:
    name: str
    status: str
    created_at: str
    entries: int
    state_version: int

    def to_json(self) -> dict[str, Any]:
        return {
            "project": self.name,
            "status": self.status,
            "created_at": self.created_at,
            "entries": self.entries,
            "state_version": self.state_version,
        }


def list_projects(reader: Reader) -> list[Project]:
    """Every project by name; the gate's own chain is none."""
    return [
        Project(head.project, head.status, head.created_at, head.seq, head.state_version)
        for head in reader.heads()
        if not head.project.startswith("_")
    ]


class Projects:
    """The changes, on behalf of one person or program."""

    def __init__(self, ledger: Ledger, clock: Clock, ids: Ids, by: str) -> None:
        self._ledger, self._clock, self._ids, self._by = ledger, clock, ids, by

    async def create(
        self, name: str, initial_state: Json = None, state_schema: Mapping[str, Json] | None = None
    ) -> None:
        """A new, open project; its initial state must be an object and fit the schema that every later one must fit."""
        _check_name(name)
        document = _checked_document("initial state", {} if initial_state is None else initial_state)
        schema = None if state_schema is None else _checked_document("state schema", state_schema)
        if schema is not None:
            _check_fit(schema, document)
        told = {"initial_state": document} | ({} if schema is None else {"state_schema": schema})
        change = CreateProject(canonical(document), None if schema is None else canonical(schema))
        await self._commit(name, "create", change, told)

    async def lock(self, name: str) -> None:
        await self._move(name, "lock")

    async def archive(self, name: str) -> None:
        if name == "default":
            raise ToolError("project `default` cannot be archived", code=2002, suggestion="lock it instead")
        await self._move(name, "archive")

    async def unlock(self, name: str) -> None:
        await self._move(name, "unlock")

    async def _move(self, name: str, action: str) -> None:
        """Under the project's lock, so that nobody's change rests on a status that another is just changing."""
        _check_name(name)
        status, before = _WAYS[action]
        if await self._ledger.head(name) is None:
            raise unknown_project(name)
        async with self._ledger.lock_project(name):
            head = await self._ledger.head(name)
            assert head is not None, "a project is never deleted"
            if head.status not in before:
                raise GateError.of(
                    Problem(
                        1017, f"project `{name}` is {head.status}", f"{action} needs one that is {' or '.join(before)}"
                    )
                )
            await self._commit(name, action, SetStatus(status), {})

    async def _commit(
        self, name: str, action: str, change: CreateProject | SetStatus, told: Mapping[str, Json]
    ) -> None:
        status = change.status if isinstance(change, SetStatus) else "open"
        body = canonical({**told, "action": action, "by": self._by, "salt": self._ids.salt()})
        draft = Draft(Kind.PROJECT, iso(self._clock.now()), body, status=status)
        committed = await self._ledger.commit(Work(name, (draft,), (change,)))
        if isinstance(committed, NotOpen) and committed.status == "exists":
            raise ToolError(f"project `{name}` exists already", code=2002, suggestion="choose another name")
        assert isinstance(committed, Applied), committed


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise ToolError(
            f"`{name[: NAME_CHARS_MAX + 1]}` is no name of a project",
            code=2002,
            suggestion=f"use 1 to {NAME_CHARS_MAX} of a-z, 0-9, - and _, beginning with a letter or digit",
        )


def _checked_document(what: str, value: Json) -> dict[str, Json]:
    if not isinstance(value, Mapping):
        raise ToolError(f"the {what} is not an object", code=2002)
    try:
        document: dict[str, Json] = normalise(value, bytes_max=STATE_BYTES_MAX)[0]
    except CodecError as error:
        raise ToolError(f"the {what} is not JSON: {error}", code=2002) from None
    return document


def _check_fit(schema: Mapping[str, Json], document: Json) -> None:
    try:
        wrong = validator(schema)(document)
    except ValueError as error:
        first_line = str(error).partition("\n")[0]
        raise ToolError(f"the state schema is no JSON Schema: {first_line}", code=2002) from None
    if wrong:
        raise ToolError(f"the initial state does not fit the state schema: {wrong}", code=2002)

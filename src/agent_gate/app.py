"""Composition root: settings in, a wired gate out; the only file that knows every adapter."""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from agent_gate.bindings.paths import PathResolver
from agent_gate.bindings.surroundings import look_around, real_directory, real_paths
from agent_gate.config import load_policy
from agent_gate.ledger.files import LedgerFiles
from agent_gate.ledger.sqlite import SqliteLedger
from agent_gate.model.approval import Approver
from agent_gate.model.builtin import BUILTIN
from agent_gate.model.call import Agent
from agent_gate.model.codec import canonical, sha256_hex
from agent_gate.model.entry import GATE_PROJECT, Draft, Kind, Work
from agent_gate.model.errors import GateError
from agent_gate.model.limits import APPROVAL_TIMEOUT_S, POLICY_POLL_INTERVAL_S
from agent_gate.model.moment import iso
from agent_gate.model.policy import Policy
from agent_gate.model.tool import Json
from agent_gate.pipeline.admit import Admission
from agent_gate.pipeline.bind import Binder
from agent_gate.pipeline.effects import Effects
from agent_gate.pipeline.hold import Holder
from agent_gate.pipeline.perform import Performer
from agent_gate.pipeline.settle import Settler
from agent_gate.pipeline.tally import Tally
from agent_gate.policy.judge import Judge
from agent_gate.ports import Clock, Ids, Notifier
from agent_gate.runtime import Gate, Stages
from agent_gate.services.filesystem import FilesystemService
from agent_gate.services.http import HttpService
from agent_gate.services.registry import ToolRegistry
from agent_gate.services.revert import RevertService
from agent_gate.services.state import StateService
from agent_gate.system import RandomIds, SystemClock
from agent_gate.toolkit import hand_of

_log = logging.getLogger(__name__)

PolicySource = Policy | str | Path | Mapping[str, Json]


class KeyedHashes:
    """Secrets as their keyed hash, with the key of this ledger."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def keyed_hash(self, value: bytes) -> str:
        return hmac.digest(self._key, value, "sha256").hex()


@asynccontextmanager
async def open_gate(
    policy: PolicySource,
    db: str | Path = "agent-gate.db",
    *,
    tools: Iterable[Callable[..., Any]] = (),
    agent: Agent | None = None,
    approvers: Sequence[Approver] = (),
    notifier: Notifier | None = None,
    approval_timeout_s: float = APPROVAL_TIMEOUT_S,
    working_dir: str | Path | None = None,
    own_files: Sequence[str | Path] = (),
    clock: Clock | None = None,
    ids: Ids | None = None,
) -> AsyncIterator[Gate]:
    """A gate for as long as the block runs: `async with open_gate(policy=…, db=…) as gate: await gate.call(…)`.

    Relative paths begin at `working_dir`. No tool reaches the files of the ledger, nor `own_files`, such as a config.
    """
    clock = clock or SystemClock()
    ids = ids or RandomIds()
    standing = Standing(real_directory(working_dir), db, policy, own_files)
    watch = PolicyWatch(policy, standing) if isinstance(policy, str | Path) else None
    judge = standing.judge(policy if isinstance(policy, Policy) else load_policy(policy))
    registry = ToolRegistry([*StateService().hands(), *map(hand_of, tools)])
    ledger = SqliteLedger(db, clock, ids)
    gate = wire(
        ledger, judge, registry, clock, ids, agent or Agent("local"), notifier, bool(approvers), approval_timeout_s
    )
    try:
        http = HttpService(ledger, clock, can_ask=bool(approvers) or notifier is not None)
        files = FilesystemService(standing.resolver())
        for hand in (*RevertService(ledger, registry.find).hands(), *files.hands(), *http.hands()):
            registry.add(hand)
        await record_policy(gate, judge)
        await record_tools(gate)
        if watch:
            watch.start(gate)
        yield gate
    finally:
        if watch:
            await watch.stop()
        await gate.close()


class Standing:
    """Where a gate stands, the same for every policy that comes into force there."""

    def __init__(
        self, working_dir: str, db: str | Path, policy: PolicySource, own_files: Sequence[str | Path] = ()
    ) -> None:
        self._working_dir = working_dir
        self._protected = (policy,) if isinstance(policy, str | Path) else ()
        self._secret = (*LedgerFiles(Path(db)).all(), *own_files)

    def judge(self, policy: Policy) -> Judge:
        around = look_around(policy, self._working_dir, protected=self._protected, secret=self._secret)
        return Judge(policy, around)

    def resolver(self) -> PathResolver:
        return PathResolver(self._working_dir, real_paths((*self._protected, *self._secret)))


def wire(
    ledger: SqliteLedger,
    judge: Judge,
    registry: ToolRegistry,
    clock: Clock,
    ids: Ids,
    agent: Agent,
    notifier: Notifier | None,
    can_ask: bool,
    approval_timeout_s: float,
) -> Gate:
    secrets = KeyedHashes(ledger.secret)
    stages = Stages(
        Admission(ledger, clock, secrets),
        Binder(registry, ledger, clock, secrets, can_ask or notifier is not None),
        Holder(ledger, clock, ids, notifier, approval_timeout_s),
        Performer(ledger, clock, ids),
        Settler(ledger, clock, ids),
        Effects(ledger, clock, ids),
        Tally(ledger, clock, ids),
    )
    return Gate(stages, judge, registry, ledger, clock, ids, agent)


async def record_policy(gate: Gate, judge: Judge) -> None:
    """Each version of the policy that a gate judges by is an entry."""
    ledger = gate.ledger
    if await ledger.last_policy_hash() == judge.policy_hash:
        return
    source = canonical(dict(judge.policy.source))
    body = canonical({"policy_hash": judge.policy_hash, "salt": gate.ids.salt()})
    draft = Draft(Kind.POLICY, iso(gate.clock.now()), body)
    await ledger.commit(Work(GATE_PROJECT, (draft,), blobs=((judge.policy_hash, source),)))


async def record_tools(gate: Gate) -> None:
    """What each tool says of itself, whenever that changes, so that recorded calls can be judged again anywhere."""
    own = {hand.declaration.name: hand.declaration.to_json() for hand in gate.tools.all()}
    source = canonical({name: fields for name, fields in own.items() if name not in BUILTIN})
    tools_hash = sha256_hex(source)
    if source == b"{}" or await gate.ledger.last_tools_hash() == tools_hash:
        return
    draft = Draft(Kind.TOOLS, iso(gate.clock.now()), canonical({"salt": gate.ids.salt(), "tools_hash": tools_hash}))
    await gate.ledger.commit(Work(GATE_PROJECT, (draft,), blobs=((tools_hash, source),)))


class PolicyWatch:
    """Reloads a policy file when it changes; an invalid one keeps the old policy in force, and says so."""

    def __init__(self, path: str | Path, standing: Standing) -> None:
        """Make it before the policy is loaded: what changes from here on is seen."""
        self._path, self._standing = Path(path), standing
        self._seen = self._stamp()
        self._task: asyncio.Task[None] | None = None

    def start(self, gate: Gate) -> None:
        self._task = asyncio.create_task(self._watch(gate))

    async def stop(self) -> None:
        if self._task:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def reload(self, gate: Gate) -> bool:
        """Load the file now; whether its policy is in force."""
        try:
            judge = self._standing.judge(load_policy(self._path))
            await record_policy(gate, judge)
        except GateError as error:
            _log.warning("the policy in force stays: %s", error)
            return False
        gate.judge = judge
        return True

    async def _watch(self, gate: Gate) -> None:
        while True:
            await asyncio.sleep(POLICY_POLL_INTERVAL_S)
            stamp = self._stamp()
            if stamp != self._seen:
                self._seen = stamp
                await self.reload(gate)

    def _stamp(self) -> tuple[int, int, int] | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_ino, status.st_size

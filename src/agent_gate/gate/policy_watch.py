"""The policy in force: each version is an entry, and a changed file is reloaded."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from agent_gate.config import load_policy
from agent_gate.config.policy_warnings import warnings_of
from agent_gate.gate.gate import Gate
from agent_gate.model.bounds import POLICY_POLL_INTERVAL_S
from agent_gate.model.codec import canonical, sha256_hex
from agent_gate.model.entry import GATE_PROJECT, Draft, Kind
from agent_gate.model.errors import GateError
from agent_gate.model.moment import iso
from agent_gate.model.policy import Policy
from agent_gate.model.work import KeepBlob, Work
from agent_gate.policy.judge import Judge
from agent_gate.tools.catalogue import BUILTIN

_log = logging.getLogger(__name__)


def log_warnings(gate: Gate, judge: Judge) -> None:
    """Log what the policy says without effect."""
    tools = {registered.declaration.name: registered.declaration for registered in gate.tools.all()}
    for tool in tools.values():
        judge.judged(tool)  # compiles its guard, which the first call need not wait for then
    for warning in warnings_of(judge.policy, tools):
        _log.warning("%s", warning)


async def record_policy(gate: Gate, judge: Judge) -> None:
    """Write each version of the policy that a gate judges by as an entry; log what it says without effect."""
    log_warnings(gate, judge)
    ledger = gate.ledger
    if await ledger.last_policy_hash() == judge.policy_hash:
        return
    source = canonical(dict(judge.policy.source))
    body = canonical({"policy_hash": judge.policy_hash, "salt": gate.ids.salt()})
    draft = Draft(Kind.POLICY, iso(gate.clock.now()), body)
    await ledger.commit(Work(GATE_PROJECT, (draft,), (KeepBlob(judge.policy_hash, source),)))


async def record_tools(gate: Gate) -> None:
    """Write what each tool says of itself, whenever that changes, so that recorded calls can be judged again."""
    own = {registered.declaration.name: registered.declaration.to_json() for registered in gate.tools.all()}
    source = canonical({name: fields for name, fields in own.items() if name not in BUILTIN})
    tools_hash = sha256_hex(source)
    if source == b"{}" or await gate.ledger.last_tools_hash() == tools_hash:
        return
    draft = Draft(Kind.TOOLS, iso(gate.clock.now()), canonical({"salt": gate.ids.salt(), "tools_hash": tools_hash}))
    await gate.ledger.commit(Work(GATE_PROJECT, (draft,), (KeepBlob(tools_hash, source),)))


class PolicyWatch:
    """Reloads a policy file when it changes; an invalid one keeps the old policy in force, and says so."""

    def __init__(
        self,
        path: str | Path,
        judge_of: Callable[[Policy], Judge],
        load: Callable[[Path], Policy] = load_policy,
        poll_s: float = POLICY_POLL_INTERVAL_S,
    ) -> None:
        """Make it before the policy is loaded: what changes from here on is seen."""
        self._path, self._load, self._judge_of, self._poll_s = Path(path), load, judge_of, poll_s
        self._seen = self._stamp()
        self._task: asyncio.Task[None] | None = None

    def start(self, gate: Gate) -> None:
        self._task = asyncio.create_task(self._watch(gate))

    async def stop(self) -> None:
        if self._task:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def reload(self, gate: Gate) -> bool:
        """Load the file now, and say whether its policy is in force."""
        self._seen = self._stamp()
        try:
            judge = self._judge_of(self._load(self._path))
            await record_policy(gate, judge)
        except GateError as error:
            _log.warning("the policy in force stays: %s", error)
            return False
        gate.judge = judge
        return True

    async def _watch(self, gate: Gate) -> None:
        while True:
            await asyncio.sleep(self._poll_s)
            if self._stamp() != self._seen:
                await self.reload(gate)

    def _stamp(self) -> tuple[int, int, int] | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_ino, status.st_size

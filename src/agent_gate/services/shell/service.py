"""The service behind `shell.run`: binds a command to what it leads to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from agent_gate.model.bounds import PLACE_WAIT_S, SHELL_COMMANDS_MAX, SIGNATURES_MAX
from agent_gate.model.call import BoundCall, CallRequest
from agent_gate.model.errors import ToolError
from agent_gate.model.policy import Policy
from agent_gate.model.tool import Json, ToolDeclaration
from agent_gate.policy.changes import write_signature
from agent_gate.policy.guards.commands import NO_SANDBOX
from agent_gate.policy.guards.surroundings import Surroundings
from agent_gate.policy.judge import Judge
from agent_gate.ports.tools import Binding, Proposal, Recorded, RegisteredTool
from agent_gate.resolve.commit.layer import Found
from agent_gate.resolve.commit.undoing import undoing
from agent_gate.resolve.copied_paths import CopiedPaths
from agent_gate.resolve.copies import Copies
from agent_gate.resolve.paths import PathResolver
from agent_gate.sandbox.choice import Choice
from agent_gate.sandbox.supervised import Unconfined
from agent_gate.services.shell.acting import THREADS, Act
from agent_gate.services.shell.failing import fails_on
from agent_gate.services.shell.layering import IN_LAYERS, Layering, writes_of
from agent_gate.services.shell.looking import Looked, look
from agent_gate.services.shell.proposal import FileProposal
from agent_gate.services.shell.reaching import look_below
from agent_gate.services.shell.viewing import Viewer
from agent_gate.system.sharing import Places
from agent_gate.toolkit import make_registered_tool
from agent_gate.tools.shell import SHELL_RUN


class ShellService:
    name = "shell"

    def __init__(
        self,
        working_dir: str,
        resolver: PathResolver,
        around: Callable[[Policy], Surroundings],
        choice: Choice | None = None,
        notes: str | None = None,
        place_wait_s: float = PLACE_WAIT_S,
    ) -> None:
        """`around` tells where the gate stands under a policy; `notes` is a directory for what is staged on disks."""
        self._working_dir, self._resolver, self._around = working_dir, resolver, around
        self._choice = choice or Choice()
        self._places = Places(SHELL_COMMANDS_MAX, "commands run", place_wait_s)
        self._layering = Layering(self._choice, resolver.own_files, working_dir, around, notes)

    def tools(self) -> Sequence[ToolDeclaration]:
        return (SHELL_RUN,)

    def registered_tools(self) -> Sequence[RegisteredTool]:
        return [make_registered_tool(SHELL_RUN, self.name, bind=self._bind, undo=self._bind_undo)]

    async def execute(self, tool_name: str, args: Mapping[str, Json]) -> Json:  # noqa: ARG002 -- the service's shape
        raise ToolError(f"`{tool_name}` runs what was judged: call it through the gate")

    async def health_check(self) -> bool:
        return await self._choice.pick("auto") is not None

    async def _bind(self, request: CallRequest, args: Mapping[str, Json], judge: Judge) -> Binding:
        policy = judge.policy
        around = self._around(policy)
        copies = request.copies if isinstance(request.copies, Copies) else None
        resolver = CopiedPaths(self._resolver, copies) if copies is not None else self._resolver
        looked = await THREADS.run(partial(look, args, policy, resolver, self._working_dir, around))
        section = policy.guards.shell_run
        sandbox = await self._choice.pick(section.sandbox) if section is not None else None
        looked.resources["sandbox"] = sandbox.name if sandbox is not None else NO_SANDBOX
        looked.resources["writes"] = writes = writes_of(policy, looked.use)
        if writes in IN_LAYERS and sandbox is not None and not sandbox.layers:
            looked.found["layers"] = False
        if isinstance(sandbox, Unconfined):
            await self._look_below(looked, policy, around)
        viewer = Viewer(policy, around, self._resolver.own_files, copies)
        act = Act(looked, args, policy, viewer, sandbox, self._places, self._layering, fails_on(request), copies)
        return Binding(
            (looked.signature,),
            looked.resources,
            act,
            release=looked.release,
            found=looked.found,
            preview=act.preview,
            proposes=writes != "direct",
            aliases=looked.aliases,
            copies=True,
        )

    async def _bind_undo(self, call: Recorded, _: Judge) -> Binding:
        """Remove what the command wrote and bring back what was there before, as one transaction."""
        changes = await THREADS.run(partial(undoing, call, self._layering.own_files))
        told = {"restored": len(changes)}
        proposal = await THREADS.run(partial(FileProposal, told, Found(changes), THREADS, self._layering.file_list))

        async def act(_: BoundCall) -> Proposal:
            return proposal

        judged = proposal.changes
        return Binding(
            tuple(write_signature(change.path) for change in judged[: SIGNATURES_MAX - 1]),
            {"manifest_hash": proposal.manifest_hash, "writes": "judge"},
            act,
            found={"files": {change.path: dict(change.found) for change in judged}},
            proposes=True,
        )

    async def _look_below(self, looked: Looked, policy: Policy, around: Surroundings) -> None:
        try:
            await THREADS.run(partial(look_below, looked, policy, around, self._resolver))
        except BaseException:
            looked.release()
            raise

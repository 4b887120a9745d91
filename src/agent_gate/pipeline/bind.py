"""Bind: the tool exists, its arguments fit, and everything is normalised once into the bound call."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import replace
from functools import partial
from hashlib import sha256

from msgspec import structs

from agent_gate.model.bounds import FAILURE_CHARS_MAX, SIGNATURES_MAX
from agent_gate.model.call import NO_USAGE, BoundCall, CallRequest, Facts, Usage
from agent_gate.model.charge import Charge
from agent_gate.model.codec import canonical, compact
from agent_gate.model.errors import GateError, Problem, ToolError
from agent_gate.model.project import ProjectState
from agent_gate.model.schema import arguments_named, without_nulls
from agent_gate.model.secrecy import recorded_args, recorded_misfit, without_secrets
from agent_gate.model.tool import Json, ToolDeclaration
from agent_gate.model.verdict import ALLOW
from agent_gate.policy.aliases import aliases_of
from agent_gate.policy.judge import Judge
from agent_gate.policy.limits import counted, usage_of
from agent_gate.ports.ledger import Ledger
from agent_gate.ports.surroundings import Clock, Secrets
from agent_gate.ports.tools import Act, Binding, Prepared, RegisteredTool, Tools
from agent_gate.system.sharing import ON_BEHALF_OF

_NO_STATE = ProjectState(0, None)


class Binder:
    """Binds calls to the tools that are offered here."""

    def __init__(self, tools: Tools, ledger: Ledger, clock: Clock, secrets: Secrets, can_ask: bool) -> None:
        self._tools, self._ledger, self._clock, self._secrets = tools, ledger, clock, secrets
        self._can_ask = can_ask

    def with_tools(self, tools: Tools) -> Binder:
        """The same for what is no call of a tool that agents have."""
        return Binder(tools, self._ledger, self._clock, self._secrets, self._can_ask)

    async def bind(
        self,
        request: CallRequest,
        args: Mapping[str, Json],
        call_id: str,
        judge: Judge,
        state: ProjectState | None = None,
        besides: tuple[Charge, ...] = (),
        args_json: bytes | None = None,
    ) -> Prepared | Problem:
        """`state` is given where the caller already holds it: in a turn, or in a simulation.

        `besides` is what usage counts beside the ledger: a simulation's earlier steps, or less what is the call's own.
        `args_json` are the arguments' canonical bytes, where they are at hand.
        """
        ON_BEHALF_OF.set(request.agent.id)
        registered = self._tools.find(request.tool)
        if registered is None:
            return self._tools.missing(request.tool)
        if None in args.values():
            given, args = args, without_nulls(args, registered.nulls_absent)
            args_json = args_json if args is given else None
        wrong = registered.validate(args)
        if wrong:
            return Problem(
                2002, f"`{request.tool}`: {wrong}", arguments_named(registered.declaration.input_schema), "bind"
            )
        try:
            if registered.normalise:
                given, args = args, registered.normalise(args)
                args_json = args_json if args is given else None
            binding = (
                await self._binding(registered.declaration, args, registered.bind(request, args, judge))
                if registered.bind
                else Binding(registered.sign(args))
            )
        except GateError as error:
            return self._hidden(error.problem.at("bind"), args, registered.declaration)
        try:
            now, transition = self._clock.now(), binding.transition or registered.transition
            judged = judge.judged(registered.declaration)
            if state is None and (transition is not None or judged.needs_state):
                state = await self._ledger.state(request.project)
            aliases = _aliases(registered, args, binding, state or _NO_STATE)
            call = self._bound(request, args, call_id, registered.declaration, binding, args_json, aliases)
            charges = judge.charges(registered.declaration, now, request.run_id) if judge.counts else ()
            usage = await self._usage(request.project, charges, besides) if charges else NO_USAGE
            cools = judge.policy.cooldown_seconds > 0
            refused = await self._refused_recently(call, judge, now, registered.declaration) if cools else False
            facts = self._facts(request, judge, now, state or _NO_STATE, usage, refused, binding.found)
            if binding.look_further and judge.decide(call, facts, registered.declaration).decision is ALLOW:
                binding = await self._binding(registered.declaration, args, binding.look_further())
                facts = structs.replace(facts, found=binding.found)
            act = binding.act or registered.act or _list_act(registered, judge, call, facts)
            return Prepared(
                call,
                facts,
                registered,
                judged.declaration,
                charges=charges,
                act=act,
                transition=transition,
                on_release=binding.release,
                keep=binding.keep,
                preview=binding.preview,
                needs_state=judged.needs_state,
                proposes=binding.proposes,
                copies=binding.copies,
                state=state or _NO_STATE,
            )
        except ToolError as error:  # what the ledger cannot do is no matter of this call
            _release(binding)
            return self._hidden(error.problem.at("bind"), args, registered.declaration)
        except BaseException:
            _release(binding)
            raise

    def changes_state(self, tool: str) -> bool:
        """True where a tool makes the project's next state, as far as its name tells."""
        registered = self._tools.find(tool)
        return registered is not None and registered.transition is not None and not registered.only_looks

    @staticmethod
    async def _binding(tool: ToolDeclaration, args: Mapping[str, Json], finding: Awaitable[Binding]) -> Binding:
        try:
            binding = await finding
        except GateError:
            raise
        except Exception as error:
            detail = without_secrets(f"`{tool.name}` could not be bound: {type(error).__name__}: {error}", args, tool)
            raise ToolError(detail[:FAILURE_CHARS_MAX]) from error
        if 0 < len(binding.signatures) <= SIGNATURES_MAX:
            return binding
        _release(binding)
        raise ToolError(
            f"`{tool.name}` would touch {len(binding.signatures)} things, not 1 to {SIGNATURES_MAX}",
            code=2002,
            suggestion="name what is meant, in several calls if need be",
        )

    def recordable(self, tool: str, args: Mapping[str, Json]) -> Mapping[str, Json] | None:
        """The part of the arguments of a call that was not bound that may be written down; None where no tool says."""
        registered = self._tools.find(tool)
        return recorded_misfit(args, registered.declaration, self._secrets.keyed_hash) if registered else None

    @staticmethod
    def _hidden(problem: Problem, args: Mapping[str, Json], declaration: ToolDeclaration) -> Problem:
        return replace(problem, detail=without_secrets(problem.detail, args, declaration))

    def _bound(
        self,
        request: CallRequest,
        args: Mapping[str, Json],
        call_id: str,
        declaration: ToolDeclaration,
        binding: Binding,
        args_json: bytes | None = None,
        aliases: tuple[str, ...] = (),
    ) -> BoundCall:
        recorded = recorded_args(args, declaration, self._secrets.keyed_hash) if declaration.secret else args
        if args_json is None or recorded is not args:
            args_json = compact(canonical(recorded))
        return BoundCall(
            call_id,
            request,
            args=args,
            recorded_args=recorded,
            signatures=binding.signatures,
            input_hash=sha256(args_json).hexdigest(),
            resources=binding.resources,
            recorded_json=args_json,
            aliases=aliases,
        )

    def _facts(
        self,
        request: CallRequest,
        judge: Judge,
        now: float,
        state: ProjectState,
        usage: Usage,
        refused_recently: bool,
        found: Mapping[str, Json],
    ) -> Facts:
        mode, ceiling = request.modes
        return Facts(
            at=now,
            mode=mode,
            roles=request.agent.roles,
            confirmed=request.confirmed,
            policy_hash=judge.policy_hash,
            state_version=state.version,
            state=state.document,
            usage=usage,
            can_ask=self._can_ask or request.simulate,
            refused_recently=refused_recently,
            found=found,
            ceiling=ceiling,
        )

    async def _usage(self, project: str, charges: tuple[Charge, ...], besides: tuple[Charge, ...]) -> Usage:
        used = [(charge, await self._ledger.used(project, charge) + counted(charge, besides)) for charge in charges]
        return usage_of(used)

    async def _refused_recently(self, call: BoundCall, judge: Judge, now: float, declaration: ToolDeclaration) -> bool:
        project, since = call.request.project, now - judge.policy.cooldown_seconds
        # What a read of the state shows has many names, and each would be a look-up; the rules judge them all.
        aliases = () if declaration.looks else call.aliases
        for signature in (*call.signatures, *aliases):
            if await self._ledger.denied_since(project, signature, since):
                return True
        return False


def _aliases(
    registered: RegisteredTool, args: Mapping[str, Json], binding: Binding, state: ProjectState
) -> tuple[str, ...]:
    """Other names of the call; where it changes the state, they rest on the state as it is."""
    if registered.bind is None:
        return aliases_of(registered.declaration, args, state.document)
    return binding.aliases + binding.changes(state.document) if binding.changes else binding.aliases


def _list_act(registered: RegisteredTool, judge: Judge, call: BoundCall, facts: Facts) -> Act | None:
    list_act = registered.list_act
    if list_act is None:
        return None

    def act(bound: BoundCall) -> Awaitable[Json]:
        return list_act(bound, partial(judge.withheld, call, facts, registered.declaration))

    return act


def _release(binding: Binding) -> None:
    if binding.release:
        binding.release()

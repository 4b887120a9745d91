"""Signatures by a tool's name alone, as the core-engine document has them; also of names that nobody offers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from agent_gate.model.tool import Json
from agent_gate.policy.encoding import ArgumentError
from agent_gate.policy.signature import FORBIDDEN_CHARS_RE, by_values, validate_name
from agent_gate.tools.catalogue import BUILTIN
from agent_gate.tools.home_assistant.signatures import validate_identifiers


def validate_args(tool: str, args: Mapping[str, Json]) -> None:
    """Raise ValueError for a name or an argument, at any depth, that could be mistaken for part of a signature."""
    validate_name(tool)
    for name, value in args.items():
        for text in _texts({name: value}):
            found = FORBIDDEN_CHARS_RE.search(text)
            if found:
                raise ArgumentError(
                    f"argument `{name}` of `{tool}` contains {found.group()!r}",
                    "* ? [ ] ( ) , and control characters are not allowed",
                )
        validate_identifiers(tool, name, value)


def build_signature(tool: str, args: Mapping[str, Json]) -> str:
    """The signature of a call with one target; ValueError if it is malformed or has several targets."""
    signatures = build_signatures(tool, args)
    targets = {signature.partition(", ")[2] for signature in signatures} if len(signatures) > 1 else {""}
    if len(targets) > 1:
        raise ArgumentError(f"the call has {len(targets)} targets", "use build_signatures")
    return signatures[0]


def build_signatures(tool: str, args: Mapping[str, Json]) -> tuple[str, ...]:
    """Every signature of a call of a tool by its name alone; ValueError if it is malformed."""
    validate_args(tool, args)
    known = BUILTIN.get(tool)
    return known.sign(args) if known is not None and known.sign is not None else (by_values(tool, args),)


def _texts(value: Json) -> Iterator[str]:
    """Every text in a value, keys too; without recursion, because nothing has bounded the depth yet."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, Mapping):
            waiting.extend(item.keys())
            waiting.extend(item.values())
        elif isinstance(item, list | tuple | set | frozenset):
            waiting.extend(item)

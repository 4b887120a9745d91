"""What of a call's arguments may be written down and shown: secret ones stand as their keyed hash."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence

from agent_gate.model.codec import canonical
from agent_gate.model.tool import Json, ToolDeclaration

HIDDEN = "***"
KeyedHash = Callable[[bytes], str]


def recorded_args(args: Mapping[str, Json], tool: ToolDeclaration, keyed_hash: KeyedHash) -> Mapping[str, Json]:
    """The arguments of a call that fits the tool's schema."""
    if not tool.secret.intersection(args):
        return args
    return {name: _sealed(value, keyed_hash) if name in tool.secret else value for name, value in args.items()}


def recorded_misfit(args: Mapping[str, Json], tool: ToolDeclaration, keyed_hash: KeyedHash) -> Mapping[str, Json]:
    """The arguments of a call that does not: what has an unknown name may be a secret under a wrong one."""
    if not tool.secret:
        return args
    known = set(tool.input_schema.get("properties") or ()) - tool.secret
    return {name: value if name in known else _sealed(value, keyed_hash) for name, value in args.items()}


def without_secrets(text: str, args: Mapping[str, Json], tool: ToolDeclaration) -> str:
    """A tool may quote its arguments in what it says; secret ones must not reach anybody that way."""
    for secret in _texts_of(args, tool):
        text = text.replace(secret, HIDDEN)
    return text


def output_without_secrets(data: Json, args: Mapping[str, Json], tool: ToolDeclaration) -> Json:
    """A tool's result, which may echo its arguments as well."""
    secrets = _texts_of(args, tool)
    return _hidden(data, secrets) if secrets else data


def _sealed(value: Json, keyed_hash: KeyedHash) -> Json:
    return {"$secret": keyed_hash(canonical([value]))}


def _texts_of(args: Mapping[str, Json], tool: ToolDeclaration) -> list[str]:
    """Every way in which a part of a secret may be spelt, the longest first, so that none is cut in pieces."""
    spelt = {spelling for name in tool.secret if name in args for spelling in _spellings(args[name])}
    return sorted(spelt, key=len, reverse=True)


def _spellings(value: Json) -> Iterator[str]:
    if isinstance(value, Mapping):
        for part in value.values():
            yield from _spellings(part)
    elif isinstance(value, list):
        for part in value:
            yield from _spellings(part)
    elif isinstance(value, str) and value:
        yield from (value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], repr(value)[1:-1])
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)


def _hidden(data: Json, secrets: Sequence[str]) -> Json:
    if isinstance(data, str):
        for secret in secrets:
            data = data.replace(secret, HIDDEN)
        return data
    if isinstance(data, Mapping):
        return {_hidden(key, secrets): _hidden(part, secrets) for key, part in data.items()}
    if isinstance(data, list | tuple):
        return [_hidden(part, secrets) for part in data]
    if isinstance(data, int | float) and not isinstance(data, bool) and str(data) in secrets:
        return HIDDEN
    return data

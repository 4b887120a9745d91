"""A call's arguments as they may be written down and shown: secret ones stand as their keyed hash."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterator, Mapping

from agent_gate.model.bounds import ENCODED_SECRETS_MAX
from agent_gate.model.codec import canonical
from agent_gate.model.redaction import Redactor
from agent_gate.model.tool import Json, ToolDeclaration

KeyedHash = Callable[[bytes], str]


class KeyedHashes:
    """Secrets as their keyed hash, with the key of this ledger."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def keyed_hash(self, value: bytes) -> str:
        return hmac.digest(self._key, value, "sha256").hex()


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
    """Hide secret arguments in what a tool says: it may quote them."""
    secrets = _secrets_in(args, tool)
    return _redactor(secrets).text(text) if secrets else text


def output_without_secrets(data: Json, args: Mapping[str, Json], tool: ToolDeclaration) -> Json:
    """Hide them in a tool's result, which may echo its arguments as well."""
    secrets = _secrets_in(args, tool)
    return _redactor(secrets).data(data) if secrets else data


def _sealed(value: Json, keyed_hash: KeyedHash) -> Json:
    return {"$secret": keyed_hash(canonical([value]))}


def _redactor(secrets: set[str]) -> Redactor:
    return Redactor(secrets, encoded=len(secrets) <= ENCODED_SECRETS_MAX, indexed=False)


def _secrets_in(args: Mapping[str, Json], tool: ToolDeclaration) -> set[str]:
    return {text for name in tool.secret if name in args for text in _texts_in(args[name])}


def _texts_in(value: Json) -> Iterator[str]:
    """Every text and number of a value, as text."""
    if isinstance(value, Mapping):
        for part in value.values():
            yield from _texts_in(part)
    elif isinstance(value, list):
        for part in value:
            yield from _texts_in(part)
    elif isinstance(value, str) and value:
        yield value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)

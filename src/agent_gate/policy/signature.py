"""The one-line canonical name of a call, which rules match and people read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from agent_gate.model.codec import sha256_hex
from agent_gate.model.errors import ToolError
from agent_gate.model.limits import IDENTIFIER_CHARS_MAX, SHOWN_CHARS_MAX
from agent_gate.model.tool import ArgumentKind, Json, ToolDeclaration
from agent_gate.policy import signature_ha
from agent_gate.policy.encoding import (
    ArgumentError,
    encoded_key,
    encoded_only_text,
    encoded_text,
    encoded_value,
    identifier,
)

FORBIDDEN_CHARS_RE = re.compile(r"[*?\[\](),\x00-\x1f]")
HA_IDENTIFIER_RE = re.compile(r"^[a-z_][a-z0-9_]*(\.[a-z0-9_]+)?\Z")
_HA_IDENTIFIERS = frozenset(("entity_id", "domain", "service", "event_type"))


def validate_args(tool: str, args: Mapping[str, Json]) -> None:
    """Raises ValueError for a name or an argument, at any depth, that could be mistaken for part of a signature."""
    _validate_name(tool)
    for name, value in args.items():
        for text in _texts({name: value}):
            found = FORBIDDEN_CHARS_RE.search(text)
            if found:
                raise ArgumentError(
                    f"argument `{name}` of `{tool}` contains {found.group()!r}",
                    "* ? [ ] ( ) , and control characters are not allowed",
                )
        if tool.startswith("ha_") and name in _HA_IDENTIFIERS:
            _validate_ha_identifier(tool, name, value)


def build_signature(tool: str, args: Mapping[str, Json]) -> str:
    """The signature of a call with one target; ValueError if it is malformed or has several targets."""
    validate_args(tool, args)
    if tool == "ha_call_service":
        return _only_target(signature_ha.service_call(args))
    if tool == "ha_activate_scene":
        return _only_target(signature_ha.scene_call(args))
    return build_signatures(tool, args)[0]


def build_signatures(tool: str, args: Mapping[str, Json]) -> tuple[str, ...]:
    """Every signature of a call of a tool by its name alone; ValueError if it is malformed."""
    validate_args(tool, args)
    special = signature_ha.SIGNATURES.get(tool)
    return special(args) if special else (_by_values(tool, args),)


def signatures_for(declaration: ToolDeclaration, args: Mapping[str, Json]) -> tuple[str, ...]:
    """Every signature of a call of a declared tool; ToolError 2002 if an argument cannot enter it.

    `fs.*`, `http.get` and `shell.run` are not built here: theirs come from what their guards resolve.
    """
    try:
        _validate_name(declaration.name)
        special = signature_ha.SIGNATURES.get(declaration.name)
        if special:
            return special(args)
        return (_by_places(declaration, args) if declaration.registered else _by_values(declaration.name, args),)
    except ArgumentError as error:
        raise ToolError(str(error), code=2002, suggestion=error.suggestion) from None


def shown(signature: str) -> str:
    """What views and messages show of a signature; a long one is cut and told apart by its hash."""
    if len(signature) <= SHOWN_CHARS_MAX:
        return signature
    return f"{signature[:SHOWN_CHARS_MAX]}~sha256:{sha256_hex(signature.encode())}"


def _by_values(tool: str, args: Mapping[str, Json]) -> str:
    """The document's form: the values alone, so that a text `1` and a number 1 read the same."""
    values = [
        encoded_text(name, value) if isinstance(value, str) else encoded_value(name, value)
        for name, value in ((name, args[name]) for name in sorted(args))
    ]
    return _joined(tool, values)


def _by_places(declaration: ToolDeclaration, args: Mapping[str, Json]) -> str:
    """One place per signed argument of the schema, empty where it is absent; then what the schema does not know."""
    return places_of(declaration)(args)


def places_of(declaration: ToolDeclaration) -> Callable[[Mapping[str, Json]], str]:
    """What a declared tool's arguments make of its signature, with the schema looked through once."""
    properties = declaration.input_schema.get("properties") or {}
    known = properties.keys()
    signed = [
        (name, _writer(declaration, name, properties[name]))
        for name in sorted(properties)
        if declaration.kind_of(name) is not ArgumentKind.UNSIGNED
    ]
    names = [name for name, _ in signed]

    def sign(args: Mapping[str, Json]) -> str:
        given = args.keys()
        places = [write(name, args[name]) if name in args else "" for name, write in signed]
        unknown = [] if given <= known else _unknown_places(declaration, args, given - known)
        if not unknown and given.isdisjoint(names):
            return declaration.name
        return _joined(declaration.name, places + unknown)

    return sign


def _unknown_places(declaration: ToolDeclaration, args: Mapping[str, Json], names: Iterable[str]) -> list[str]:
    signed = [name for name in sorted(names) if declaration.kind_of(name) is not ArgumentKind.UNSIGNED]
    return [f"{encoded_key(name)}={_writer(declaration, name, None)(name, args[name])}" for name in signed]


def signer(declaration: ToolDeclaration) -> Callable[[Mapping[str, Json]], tuple[str, ...]]:
    """`signatures_for` of one declaration, for a tool that is called again and again."""
    if declaration.name in signature_ha.SIGNATURES or not declaration.registered:
        return partial(signatures_for, declaration)
    _validate_name(declaration.name)
    sign = places_of(declaration)

    def signatures(args: Mapping[str, Json]) -> tuple[str, ...]:
        try:
            return (sign(args),)
        except ArgumentError as error:
            raise ToolError(str(error), code=2002, suggestion=error.suggestion) from None

    return signatures


def _writer(declaration: ToolDeclaration, name: str, schema: Json) -> Callable[[str, Json], str]:
    """How the argument of that name is written in its place."""
    if declaration.kind_of(name) is ArgumentKind.IDENTIFIER:
        return identifier
    text_only = isinstance(schema, Mapping) and schema.get("type") == "string"
    return encoded_only_text if text_only else encoded_value


def _joined(tool: str, places: list[str]) -> str:
    return f"{tool}({', '.join(places)})" if places else tool


def _validate_name(tool: str) -> None:
    """Otherwise a call of `t(x)` without arguments would have the signature of `t` with the argument x."""
    if not tool or len(tool) > IDENTIFIER_CHARS_MAX or FORBIDDEN_CHARS_RE.search(tool):
        raise ArgumentError(f"{tool[:SHOWN_CHARS_MAX]!r} is not the name of a tool")


def _only_target(call: signature_ha.ServiceCall) -> str:
    if len(call.entities) > 1:
        raise ArgumentError(f"the call has {len(call.entities)} targets", "use build_signatures")
    return call.signatures[0]


def _validate_ha_identifier(tool: str, name: str, value: Json) -> None:
    if value is None:
        return
    each = value if isinstance(value, list | tuple) and name == "entity_id" else [value]
    if not all(isinstance(item, str) and HA_IDENTIFIER_RE.match(item) for item in each):
        raise ArgumentError(
            f"argument `{name}` of `{tool}` is not a Home Assistant identifier",
            "write it like `light.kitchen`, in lower case",
        )


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

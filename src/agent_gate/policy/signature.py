"""The one-line canonical name of a call, which rules match and people read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from agent_gate.model.bounds import (
    ARGS_BYTES_MAX,
    FAILURE_CHARS_MAX,
    IDENTIFIER_CHARS_MAX,
    SHOWN_CHARS_MAX,
    SIGNATURES_MAX,
)
from agent_gate.model.codec import canonical, restore, sha256_hex
from agent_gate.model.errors import GateError, ToolError
from agent_gate.model.secrecy import without_secrets
from agent_gate.model.tool import ArgumentKind, Json, Signer, ToolDeclaration
from agent_gate.policy.encoding import (
    ArgumentError,
    encoded_key,
    encoded_only_text,
    encoded_text,
    encoded_value,
    identifier,
)

FORBIDDEN_CHARS_RE = re.compile(r"[*?\[\](),\x00-\x1f]")
_SERVICE_END_RE = re.compile(r"[._(]")
_NOT_IN_SIGNATURES_RE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


def signatures_for(declaration: ToolDeclaration, args: Mapping[str, Json]) -> tuple[str, ...]:
    """Every signature of a call of a declared tool; ToolError 2002 if an argument cannot enter it.

    Those of a tool that is signed when it is bound are not built here: they come from what binding finds.
    """
    try:
        validate_name(declaration.name)
        if declaration.sign is not None:
            return _of_its_own(declaration.name, _given_by(declaration.sign, declaration, args))
        return (_by_places(declaration, args) if declaration.registered else by_values(declaration.name, args),)
    except ValueError as error:
        raise ToolError(str(error), code=2002, suggestion=getattr(error, "suggestion", "")) from None


def _given_by(sign: Signer, tool: ToolDeclaration, args: Mapping[str, Json]) -> Sequence[str]:
    """Sign a copy of the arguments: what the signer takes out of them is still what would be done."""
    try:
        signatures = sign(restore(canonical(args)))
    except (GateError, ValueError):
        raise
    except Exception as error:
        detail = without_secrets(f"`{tool.name}` could not be signed: {type(error).__name__}: {error}", args, tool)
        raise ToolError(detail[:FAILURE_CHARS_MAX]) from error
    # A text would be read letter by letter, and no rule about the tool would match any of them.
    if not isinstance(signatures, tuple | list) or not all(isinstance(one, str) for one in signatures):
        raise ToolError(f"`{tool.name}` could not be signed: its signer gives no tuple of texts")
    return signatures


def _of_its_own(tool: str, signatures: Sequence[str]) -> tuple[str, ...]:
    """Check what a tool's own signer gave: rules must have something to match, and people one line each to read."""
    if not 0 < len(signatures) <= SIGNATURES_MAX:
        raise ArgumentError(
            f"`{tool}` would touch {len(signatures)} things, not 1 to {SIGNATURES_MAX}",
            "name what is meant, in several calls if need be",
        )
    for signature in signatures:
        # Under another name the rules of another service would speak of it, and those of its own would not.
        is_its_own = _service_of(signature) == _service_of(tool)
        if not is_its_own or len(signature) > ARGS_BYTES_MAX or _NOT_IN_SIGNATURES_RE.search(signature):
            raise ArgumentError(f"{signature[:SHOWN_CHARS_MAX]!r} is not a signature of `{tool}`")
    return tuple(signatures)


def _service_of(name: str) -> str:
    """By the custom that tools bear the name of their service before a dot or an underscore."""
    return _SERVICE_END_RE.split(name, 1)[0]


def shown(signature: str) -> str:
    """Shorten a signature for views and messages; a long one is cut and told apart by its hash."""
    if len(signature) <= SHOWN_CHARS_MAX:
        return signature
    return f"{signature[:SHOWN_CHARS_MAX]}~sha256:{sha256_hex(signature.encode())}"


def by_values(tool: str, args: Mapping[str, Json]) -> str:
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
    """Make the signer of a declared tool from its schema, which is looked through once."""
    properties = declaration.input_schema.get("properties") or {}
    known = properties.keys()
    signed = [(name, _writer(declaration, name, properties[name])) for name in signed_arguments(declaration)]
    names = [name for name, _ in signed]

    def sign(args: Mapping[str, Json]) -> str:
        given = args.keys()
        places = [write(name, args[name]) if name in args else "" for name, write in signed]
        unknown = [] if given <= known else _unknown_places(declaration, args, given - known)
        if not unknown and given.isdisjoint(names):
            return declaration.name
        return _joined(declaration.name, places + unknown)

    return sign


def signed_arguments(declaration: ToolDeclaration, *, by_key: bool = False) -> list[str]:
    """The arguments of its schema that have a place in the signature, in the order of their places.

    `by_key` is the order of every tool before functions had one of their own.
    """
    properties = declaration.input_schema.get("properties") or {}
    order = () if by_key else declaration.order
    names = [*(name for name in order if name in properties), *sorted(properties.keys() - set(order))]
    return [name for name in names if declaration.kind_of(name) is not ArgumentKind.UNSIGNED]


def _unknown_places(declaration: ToolDeclaration, args: Mapping[str, Json], names: Iterable[str]) -> list[str]:
    signed = [name for name in sorted(names) if declaration.kind_of(name) is not ArgumentKind.UNSIGNED]
    return [f"{encoded_key(name)}={_writer(declaration, name, None)(name, args[name])}" for name in signed]


def signer(declaration: ToolDeclaration) -> Callable[[Mapping[str, Json]], tuple[str, ...]]:
    """`signatures_for` of one declaration, for a tool that is called again and again."""
    if declaration.sign is not None or not declaration.registered:
        return partial(signatures_for, declaration)
    validate_name(declaration.name)
    sign = places_of(declaration)

    def signatures(args: Mapping[str, Json]) -> tuple[str, ...]:
        try:
            return (sign(args),)
        except ArgumentError as error:
            raise ToolError(str(error), code=2002, suggestion=error.suggestion) from None

    return signatures


def _writer(declaration: ToolDeclaration, name: str, schema: Json) -> Callable[[str, Json], str]:
    """Choose how the argument of that name is written in its place."""
    if declaration.kind_of(name) is ArgumentKind.IDENTIFIER:
        return identifier
    text_only = isinstance(schema, Mapping) and schema.get("type") == "string"
    return encoded_only_text if text_only else encoded_value


def _joined(tool: str, places: list[str]) -> str:
    return f"{tool}({', '.join(places)})" if places else tool


def validate_name(tool: str) -> None:
    """Otherwise a call of `t(x)` without arguments would have the signature of `t` with the argument x."""
    if not tool or len(tool) > IDENTIFIER_CHARS_MAX or FORBIDDEN_CHARS_RE.search(tool):
        raise ArgumentError(f"{tool[:SHOWN_CHARS_MAX]!r} is not the name of a tool")

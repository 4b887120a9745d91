"""Signatures of the Home Assistant tools, as far as they go by the arguments alone, with no home connected."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import unquote

from agent_gate.model.bounds import JSON_DEPTH_MAX, SIGNATURES_MAX
from agent_gate.model.errors import ToolError
from agent_gate.model.tool import Json, Signer
from agent_gate.policy.encoding import ArgumentError
from agent_gate.tools.home_assistant.fields import (
    ALL,
    ENTITY,
    INDIRECT_TARGETS,
    UNDESCRIBED,
    WITHOUT_A_FIELD,
    Fields,
    Read,
    ids,
    is_entity_id,
    place_ids,
    read_fields,
)

_IDENTIFIER = re.compile(r"^[a-z_][a-z0-9_]*(\.[a-z0-9_]+)?\Z")
_IDENTIFIERS = frozenset(("entity_id", "domain", "service", "event_type"))
_NAME = re.compile(r"[a-z_][a-z0-9_]*")
_ENTITY_ID = re.compile(r"[a-z_][a-z0-9_]*\.[a-z0-9_]+")
_EVENT_TYPE = re.compile(r"[a-z_][a-z0-9_]*(\.[a-z0-9_]+)?")
_ENTITY_KEY = re.compile(r"(?:.*_)?entit(?:y_ids?|ies)|group_members")

# An id of one of these is taken for a target wherever it stands in the data; services have many names for
# such fields, and a list of them would always lack some.
_ENTITY_DOMAINS = (
    " ai_task air_quality alarm_control_panel assist_satellite automation binary_sensor button calendar camera climate"
    " conversation counter cover date datetime device_tracker event fan geo_location group humidifier image"
    " image_processing input_boolean input_button input_datetime input_number input_select input_text lawn_mower light"
    " lock media_player notify number person plant proximity remote scene schedule script select sensor siren stt sun"
    " switch tag text time timer todo tts update vacuum valve wake_word water_heater weather zone "
)


class Named(NamedTuple):
    """A call of a service with everything that its arguments name, before a home is asked what that is."""

    domain: str
    service: str
    entities: tuple[str, ...] = ()
    """Ids in the order in which they were found, once each; `all` is among them where it was said."""
    sure: frozenset[str] = frozenset()
    """Those that stand where only ids stand; the others are texts that look like one."""
    places: tuple[tuple[str, str], ...] = ()
    """Names that only a home can turn into entities: (`area_id`, `kitchen`)."""
    made: frozenset[str] = frozenset()
    """Those that the call makes where they are not there yet."""
    is_renamed: bool = False
    """True where something is named in words of the service's own: rules may know the call without it."""


class ServiceCall(NamedTuple):
    """One call of a service and every entity that it reaches."""

    domain: str
    service: str
    entities: tuple[str, ...] = ()

    @property
    def signatures(self) -> tuple[str, ...]:
        """One per entity, and a second one under the entity's own domain where that is not the service's."""
        service = f"{self.domain}.{self.service}"
        if not self.entities:
            return (f"ha_call_service({service})",)
        found: dict[str, None] = {}
        for entity in self.entities:
            found[f"ha_call_service({service}, {entity})"] = None
            domain = entity.partition(".")[0]
            if domain not in (self.domain, ALL):
                found[f"ha_call_service({domain}.{self.service}, {entity})"] = None
        if len(found) > SIGNATURES_MAX:
            raise ArgumentError(f"the call reaches more than {SIGNATURES_MAX} targets", "split it into several calls")
        return tuple(found)


Knows = Callable[[str], bool]


def named_in(args: Mapping[str, Json], described: Fields | None = None, is_known: Knows | None = None) -> Named:
    """Find what the arguments of `ha_call_service` name.

    `described` are the fields as the server tells them, and `is_known` says of any text whether it is an entity there.
    """
    domain = _matching(_NAME, args, "domain", "a domain such as `light`")
    service = _matching(_NAME, args, "service", "a service such as `turn_on`")
    parts = list(_parts(args))
    by_field = list(_by_field({**(described or {}), **UNDESCRIBED.get(f"{domain}.{service}", {})}, args))
    found = [
        *((entity, True) for part in parts for entity in _target("entity_id", part)),
        *((read.name, read.must_exist) for read in by_field if read.kind == ENTITY),
        *_elsewhere(args, is_known or _is_known_nowhere),
    ]
    places = [place for part in parts for place in _places(part)]
    places += [(read.kind, read.name) for read in by_field if read.kind != ENTITY]
    return Named(
        domain,
        service,
        tuple(dict.fromkeys(entity for entity, _ in found)),
        frozenset(entity for entity, is_sure in found if is_sure),
        tuple(dict.fromkeys(places)),
        frozenset(read.name for read in by_field if not read.must_exist),
        not all(read.is_id for read in by_field),
    )


def _is_known_nowhere(_: str) -> bool:
    return False


def _by_field(fields: Fields, args: Mapping[str, Json]) -> Iterator[Read]:
    for part in ("data", "service_data"):
        value = args.get(part)
        if isinstance(value, Mapping):
            yield from read_fields(fields, value)


def aliases_of_service(named: Named) -> tuple[str, ...]:
    """Other names of a call, which its arguments alone tell: those by which a rule may deny what it does."""
    service = f"{named.domain}.{named.service}"
    found: list[str] = []
    if named.is_renamed:
        found.append(f"ha_call_service({service})")
    if named.domain == "script" and named.service not in _OF_EVERY_SCRIPT:
        found.append(f"ha_call_service(script.turn_on, {service})")
    if service in WITHOUT_A_FIELD:
        found += ServiceCall(named.domain, named.service, (WITHOUT_A_FIELD[service],)).signatures
    return tuple(found)


_OF_EVERY_SCRIPT = ("turn_on", "turn_off", "toggle", "reload")
"""Every other service of the domain is a script of that name."""


def service_call(args: Mapping[str, Json]) -> ServiceCall:
    """Sign what `ha_call_service` with these arguments would call, where no home is connected."""
    named = named_in(args)
    for name, _ in named.places:
        raise ToolError(
            f"`{name}` cannot be resolved: no Home Assistant is connected here",
            code=2006,
            suggestion="name the entities, or judge the call where Home Assistant is connected",
        )
    return ServiceCall(named.domain, named.service, named.entities)


def scene_call(args: Mapping[str, Json]) -> ServiceCall:
    """Sign what `ha_activate_scene` with these arguments would call."""
    scenes = tuple(dict.fromkeys(ids("entity_id", args.get("entity_id"))))
    if not scenes or not all(scene.startswith("scene.") for scene in scenes):
        raise ArgumentError("`entity_id` of `ha_activate_scene` is not a scene", "give it as `scene.movie_night`")
    return ServiceCall("scene", "turn_on", scenes)


def signer_of_state(tool: str) -> Signer:
    """For a tool that reads one entity."""
    return lambda args: (f"{tool}({_matching(_ENTITY_ID, args, 'entity_id', 'an entity id such as `light.kitchen`')})",)


def signature_of_event(args: Mapping[str, Json]) -> tuple[str, ...]:
    return (f"ha_fire_event({_matching(_EVENT_TYPE, args, 'event_type', 'an event type such as `doorbell_rang`')})",)


def signatures_of_service(args: Mapping[str, Json]) -> tuple[str, ...]:
    return service_call(args).signatures


def signatures_of_scene(args: Mapping[str, Json]) -> tuple[str, ...]:
    return scene_call(args).signatures


def validate_identifiers(tool: str, name: str, value: Json) -> None:
    """ValueError for an argument of any `ha_*` tool, known or not, that should be an id and is none."""
    if value is None or not tool.startswith("ha_") or name not in _IDENTIFIERS:
        return
    each = value if isinstance(value, list | tuple) and name == "entity_id" else [value]
    if not all(isinstance(item, str) and _IDENTIFIER.match(item) for item in each):
        raise ArgumentError(
            f"argument `{name}` of `{tool}` is not a Home Assistant identifier",
            "write it like `light.kitchen`, in lower case",
        )


def _matching(pattern: re.Pattern[str], args: Mapping[str, Json], name: str, wanted: str) -> str:
    value = args.get(name)
    if value is None:
        raise ArgumentError(f"`{name}` is missing", f"add {wanted}")
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise ArgumentError(f"`{name}` is not {wanted}", "use lower-case letters, digits and _")
    return value


def _parts(args: Mapping[str, Json]) -> Iterator[Mapping[str, Json]]:
    """List where a target can stand: the arguments themselves and three of them."""
    yield args
    for part in ("target", "data", "service_data"):
        value = args.get(part)
        if value is None:
            continue
        if not isinstance(value, Mapping):
            raise ArgumentError(f"`{part}` is not an object", f"give it as `{part}: {{entity_id: light.kitchen}}`")
        yield value


def _places(part: Mapping[str, Json]) -> Iterator[tuple[str, str]]:
    for name in INDIRECT_TARGETS:
        if name in part:
            yield from ((name, each) for each in place_ids(name, part[name]))


def _elsewhere(args: Mapping[str, Json], is_known: Knows) -> Iterator[tuple[str, bool]]:
    """Every other id in the arguments, in an order that does not depend on the order of keys."""
    rest = {name: value for name, value in args.items() if name not in ("domain", "service", "entity_id")}
    return _inside(rest, "", 0, is_known)


def _target(name: str, part: Mapping[str, Json]) -> Sequence[str]:
    value = part.get(name)
    if isinstance(value, list | tuple) and not value:
        raise ArgumentError(f"`{name}` is an empty list, which reaches nothing", "name an entity, or leave it out")
    return ids(name, value)


def _inside(value: Json, named: str, depth: int, is_known: Knows) -> Iterator[tuple[str, bool]]:
    """Ids below one value, and whether they are surely some; `named` is the key that says so, or empty."""
    if depth > JSON_DEPTH_MAX:
        raise ArgumentError(f"the arguments are nested deeper than {JSON_DEPTH_MAX} levels")
    if isinstance(value, Mapping):
        for key in sorted(value):
            yield from _told(named, key, is_known)
            holds_ids = not named and _ENTITY_KEY.fullmatch(key)
            yield from _inside(value[key], key if holds_ids else "", depth + 1, is_known)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _inside(item, named, depth + 1, is_known)
    elif isinstance(value, str):  # no number names an entity, whatever its field is called
        yield from _told(named, value, is_known)


def _told(named: str, value: str, is_known: Knows) -> Iterator[tuple[str, bool]]:
    found = ids(named, value) if named else _ids_in_text(value, is_known)
    return ((entity, bool(named)) for entity in found)


def _ids_in_text(text: str, is_known: Knows) -> Iterator[str]:
    # Home Assistant takes ids in any case, several in one text, and as parts of addresses of media.
    for part in _IN_ADDRESS.split(unquote(text)) if _ADDRESS.match(text) else text.split(","):
        entity = part.strip().lower()
        if is_known(entity) or (is_entity_id(entity) and is_entity_domain(entity.partition(".")[0])):
            yield entity


_ADDRESS = re.compile(r"\s*(?:[a-z-]+:/)?/", re.IGNORECASE)
_IN_ADDRESS = re.compile(r"[,/?&=]")


def is_entity_domain(domain: str) -> bool:
    """Tell whether services of this domain act on entities of the same."""
    return f" {domain} " in _ENTITY_DOMAINS

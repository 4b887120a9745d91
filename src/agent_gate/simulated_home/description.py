"""Description of the home: its configuration, its services, and their words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_gate.model.tool import Json

if TYPE_CHECKING:
    from agent_gate.simulated_home.home import SimulatedHome

_UNITS = {
    "length": "km",
    "accumulated_precipitation": "mm",
    "mass": "g",
    "pressure": "Pa",
    "temperature": "°C",
    "volume": "L",
    "wind_speed": "m/s",
}


def config(home: SimulatedHome) -> dict[str, Json]:
    return {
        "latitude": 52.37,
        "longitude": 4.89,
        "elevation": 2,
        "unit_system": _UNITS,
        "location_name": "Test Home",
        "time_zone": "UTC",
        "components": sorted({domain for domain, _ in home.services}),
        "config_dir": "/config",
        "whitelist_external_dirs": [],
        "allowlist_external_dirs": [],
        "allowlist_external_urls": [],
        "version": home.version,
        "config_source": "yaml",
        "recovery_mode": False,
        "state": home.life.phase,
        "external_url": None,
        "internal_url": None,
        "currency": "EUR",
        "country": "NL",
        "language": "en",
        "safe_mode": False,
    }


def descriptions(home: SimulatedHome) -> dict[str, Json]:
    """By domain, then by service; a newer server leaves names and descriptions to the translations."""
    described: dict[str, Json] = {}
    for (domain, name), service in home.services.items():
        own = service.as_json()
        if home.leaves_words_to_translations and domain != "script":
            del own["name"], own["description"]
        described.setdefault(domain, {})[name] = own
    return described


def translations(home: SimulatedHome, category: str) -> dict[str, str]:
    if category != "services":
        return {}
    words: dict[str, str] = {}
    for (domain, name), service in home.services.items():
        if domain == "script":
            continue
        words[f"component.{domain}.services.{name}.name"] = service.title
        words[f"component.{domain}.services.{name}.description"] = service.description
    return words

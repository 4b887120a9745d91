"""Faults of a simulated service, each kind as the real server tells it.

ServiceError
├── NotFound          not_found, 400
├── Invalid           invalid_format, 400
├── Unsupported       home_assistant_error, 500
├── Unauthorized      home_assistant_error over WebSocket, 401 over REST
└── Misused           unknown_error, 500
"""

from __future__ import annotations

from agent_gate.model.tool import Json


class ServiceError(Exception):
    code = "home_assistant_error"
    status = 500

    def as_json(self) -> dict[str, Json]:
        return {"code": self.code, "message": str(self)}


class NotFound(ServiceError):
    code = "not_found"
    status = 400

    def __init__(self, domain: str, service: str) -> None:
        super().__init__(f"Service {domain}.{service} not found.")
        self._placeholders: dict[str, Json] = {"domain": domain, "service": service}

    def as_json(self) -> dict[str, Json]:
        return {
            **super().as_json(),
            "translation_key": "service_not_found",
            "translation_placeholders": self._placeholders,
            "translation_domain": "homeassistant",
        }


class Invalid(ServiceError):
    """A value that does not fit; `path` says where it was found."""

    code = "invalid_format"
    status = 400

    def __init__(self, problem: str, *path: str) -> None:
        where = "".join(f"['{step}']" for step in path)
        super().__init__(f"{problem} @ data{where}" if path else problem)


class Unsupported(ServiceError):
    pass


class Unauthorized(ServiceError):
    status = 401

    def __init__(self) -> None:
        super().__init__("Unauthorized")


class Misused(ServiceError):
    code = "unknown_error"

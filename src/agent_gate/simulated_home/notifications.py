"""Notifications that were sent, and the phones that show them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from agent_gate.model.tool import Json


@dataclass(frozen=True, slots=True)
class Notification:
    service: str
    """Without its domain, such as `mobile_app_pixel`."""
    message: str
    title: str | None = None
    target: Json = None
    data: Mapping[str, Json] = field(default_factory=dict)

    @property
    def actions(self) -> list[Mapping[str, Json]]:
        """The buttons below it."""
        return list(self.data.get("actions", []))

    @property
    def tag(self) -> str | None:
        return self.data.get("tag")


@dataclass(frozen=True, slots=True)
class Phone:
    """A companion app; what is answered on it bears the id of its user."""

    service: str
    user_id: str

    def event_of(self, shown: Notification | None, action: str, reply_text: str | None) -> dict[str, Json]:
        """The data of `mobile_app_notification_action`, as the Android app sends it."""
        data: dict[str, Json] = {}
        if shown is not None:
            data = {"message": shown.message, **({"title": shown.title} if shown.title is not None else {})}
            data |= {key: value for key, value in shown.data.items() if key != "actions"}
            for number, button in enumerate(shown.actions, 1):
                data[f"action_{number}_key"] = button.get("action")
                data[f"action_{number}_title"] = button.get("title")
        data["action"] = action
        if reply_text is not None:
            data["reply_text"] = reply_text
        return data

"""A small home that speaks the protocol of Home Assistant 2024.3.3, for demos and tests."""

from __future__ import annotations

from agent_gate.simulated_home.home import SimulatedHome
from agent_gate.simulated_home.notifications import Notification
from agent_gate.simulated_home.registry import Area, Device, RegistryEntry
from agent_gate.simulated_home.running import Running, simulated_home
from agent_gate.simulated_home.states import Context, State
from agent_gate.simulated_home.users import User

__all__ = [
    "Area",
    "Context",
    "Device",
    "Notification",
    "RegistryEntry",
    "Running",
    "SimulatedHome",
    "State",
    "User",
    "simulated_home",
]

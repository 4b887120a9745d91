"""The stages of one gate that keep something between calls, and what stands beside them."""

from __future__ import annotations

from dataclasses import dataclass

from agent_gate.pipeline.admit import Admission
from agent_gate.pipeline.bind import Binder
from agent_gate.pipeline.effects import Effects
from agent_gate.pipeline.hold import Holder
from agent_gate.pipeline.perform import Performer
from agent_gate.pipeline.refusal_counts import RefusalCounts
from agent_gate.pipeline.settle import Settler


@dataclass(frozen=True, slots=True)
class Stages:
    """Each is named by what does it; `decide` is a function and keeps nothing."""

    admission: Admission
    binder: Binder
    holder: Holder
    performer: Performer
    settler: Settler
    effects: Effects
    refusal_counts: RefusalCounts

"""Times that a gate keeps to; who opens one may say others, as tests do."""

from __future__ import annotations

from dataclasses import dataclass

from agent_gate.model.bounds import (
    EFFECT_TIMEOUT_S,
    JOIN_POLL_S,
    NOTIFY_TIMEOUT_S,
    OWN_FILES_FRESH_S,
    PLACE_WAIT_S,
    POLICY_POLL_INTERVAL_S,
    REFUSAL_SUMMARY_S,
)


@dataclass(frozen=True, slots=True)
class GateBounds:
    join_poll_s: float = JOIN_POLL_S
    """Between two looks of one who joined a call of another process whether it has ended."""
    notify_timeout_s: float = NOTIFY_TIMEOUT_S
    """For a messenger to bring a question."""
    effect_timeout_s: float = EFFECT_TIMEOUT_S
    refusal_summary_s: float = REFUSAL_SUMMARY_S
    """For counting refusals before they are written down together."""
    policy_poll_s: float = POLICY_POLL_INTERVAL_S
    """Between two looks at the policy's file."""
    own_files_fresh_s: float = OWN_FILES_FRESH_S
    """For using what was found of the gate's own files before they are looked for again."""
    shell_place_wait_s: float = PLACE_WAIT_S
    """For a command to wait for another to end where too many run."""


DEFAULT_BOUNDS = GateBounds()

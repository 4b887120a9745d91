"""Findings about a machine, a configuration or a ledger: each is fine, worth a thought, or broken."""

from __future__ import annotations

from dataclasses import dataclass

OK, WARN, FAIL = "ok", "warn", "fail"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One thing that was looked at, how it is, and what to do."""

    name: str
    status: str
    found: str
    advice: str = ""

    def to_json(self) -> dict[str, str]:
        fields = {"name": self.name, "status": self.status, "found": self.found}
        return {**fields, "advice": self.advice} if self.advice else fields

"""What `doctor` looks at, as rows: each is fine, worth a thought, or broken, and says what to do."""

from __future__ import annotations

from dataclasses import dataclass

OK, WARN, FAIL = "ok", "warn", "fail"


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    status: str
    found: str
    advice: str = ""

    def to_json(self) -> dict[str, str]:
        fields = {"name": self.name, "status": self.status, "found": self.found}
        return {**fields, "advice": self.advice} if self.advice else fields

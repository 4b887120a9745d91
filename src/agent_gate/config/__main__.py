"""Prints the JSON Schema of a kind of file, for editors: `python -m agent_gate.config policy > policy.schema.json`."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from agent_gate.config.config_file import CONFIG_FORMAT
from agent_gate.config.file_format import FileFormat
from agent_gate.config.plan_file import PLAN_FORMAT
from agent_gate.config.policy_file import policy_format
from agent_gate.config.tool_sections import sections_for

FORMATS: Mapping[str, FileFormat[Any]] = {
    "config": CONFIG_FORMAT,
    "policy": policy_format(sections_for(()).declared),
    "plan": PLAN_FORMAT,
}
"""The kinds of files that people write, with the tools of this package."""


def main(names: list[str]) -> None:
    if len(names) != 1 or names[0] not in FORMATS:
        sys.exit(f"usage: python -m agent_gate.config {'|'.join(FORMATS)}")
    print(json.dumps(FORMATS[names[0]].schema, indent=2))


if __name__ == "__main__":
    main(sys.argv[1:])

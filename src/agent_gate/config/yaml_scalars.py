"""Reads unquoted words of YAML: the core schema of YAML 1.2, without octal and hexadecimal."""

from __future__ import annotations

import math
import re

from agent_gate.model.bounds import INTEGER_MAX

_CONSTANTS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)\Z")
_FLOAT = re.compile(r"[-+]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?\Z")


def plain(text: str) -> str | int | float | bool | None:
    """The value of an unquoted word; ValueError for a number that no JSON number can hold."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INTEGER.match(text):
        # The length is looked at first because conversion of thousands of digits is quadratic.
        if len(text) > 17 or abs(int(text)) > INTEGER_MAX:
            raise ValueError("integer exceeds 53-bit range; write it in quotes if it is a name")
        return int(text)
    if _FLOAT.match(text):
        number = float(text)
        if math.isinf(number):
            raise ValueError("number is too large; write it in quotes if it is a name")
        return number
    return text

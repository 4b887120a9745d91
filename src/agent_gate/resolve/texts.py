"""Texts and the bytes that stand for them in files, and what changed between two contents."""

from __future__ import annotations

import base64
import binascii
import codecs
import difflib
import re

from agent_gate.model.bounds import DIFF_BYTES_MAX, DIFF_SHOWN_CHARS_MAX
from agent_gate.model.codec import sha256_hex
from agent_gate.model.errors import ToolError

BASE64 = "base64"
_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,40}")
_SERVED = re.compile(
    r"ascii|utf-(8|8-sig|16|16-le|16-be|32|32-le|32-be)|iso8859-[0-9]+|cp[0-9]+|mac-[a-z]+|koi8-[rtu]"
    r"|shift_jis(x0213|_2004)?|euc_(jp|jis_2004|jisx0213|kr)|iso2022_(jp|kr)(_[0-9a-z]+)?|gb2312|gbk|gb18030|hz"
    r"|big5(hkscs)?|johab|tis-620"
)
"""Character sets; Python calls other things encodings too, some of them compressions or slow by design."""
_COMPARED_LINES_MAX = 400
"""Finding the shortest diff takes time that grows with the cube of the lines; beyond this, one hunk says it all."""


def encoding_named(name: str) -> str:
    """Python's own name of a character set; ToolError 2002 for anything else."""
    try:
        known = codecs.lookup(name).name if _NAME.fullmatch(name) else ""
    except LookupError:
        known = ""
    if not _SERVED.fullmatch(known):
        raise ToolError(
            f"`{name[:40]}` is not an encoding that is served here", code=2002, suggestion="use utf-8, or leave it out"
        )
    return known


def as_bytes(content: str, encoding: str) -> bytes:
    """Encode a text as a file has it; `base64` stands for bytes that are no text."""
    if encoding == BASE64:
        try:
            return base64.b64decode(content, validate=True)
        except (binascii.Error, ValueError):
            raise ToolError("the content is not base64", code=2002, suggestion="encode it, or leave it text") from None
    try:
        return content.encode(encoding_named(encoding))
    except UnicodeError:
        raise ToolError(
            f"the content cannot be written in {encoding}", code=2002, suggestion="use utf-8, or leave encoding out"
        ) from None


def as_text(data: bytes, encoding: str, shown: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeError as error:
        raise ToolError(
            f"`{shown}` is not {encoding}: {str(error)[:200]}", suggestion="name its encoding, or read it as binary"
        ) from None


def as_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def difference(before: bytes, after: bytes, before_is: str, after_is: str) -> str:
    """A unified diff, of which a long one is cut; of what is no text, large, or cut, sizes and hashes say the rest."""
    sides = ((before_is, before), (after_is, after))
    in_full = "\n".join(f"{name}: {len(data)} bytes, sha256 {sha256_hex(data)}" for name, data in sides)
    if max(len(before), len(after)) <= DIFF_BYTES_MAX:
        try:
            lines = _diff(*_lines(before.decode(), after.decode()), before_is, after_is)
        except UnicodeDecodeError:
            lines = []
        if lines:
            text = "\n".join(lines)
            if len(text) <= DIFF_SHOWN_CHARS_MAX:
                return text
            return f"{text[:DIFF_SHOWN_CHARS_MAX]}\n… (cut)\n{in_full}"
    return in_full


def _lines(old: str, new: str) -> tuple[list[str], list[str]]:
    """The lines of both; only LF ends one, so that no other character is taken for an end and left out of the diff."""
    marks = bool(old and new) and old.endswith("\n") != new.endswith("\n")
    return _ended(old, marks), _ended(new, marks)


def _ended(text: str, marks: bool) -> list[str]:
    *lines, last = text.split("\n")
    if last:
        lines.append(f"{last}\n\\ no LF at the end" if marks else last)
    return lines


def _diff(old: list[str], new: list[str], old_is: str, new_is: str) -> list[str]:
    if max(len(old), len(new)) <= _COMPARED_LINES_MAX:
        return list(difflib.unified_diff(old, new, old_is, new_is, lineterm="", n=2))
    same = next((at for at, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]), None)
    if same is None:
        same = min(len(old), len(new))
    end = 0
    while end < min(len(old), len(new)) - same and old[-1 - end] == new[-1 - end]:
        end += 1
    gone, come = old[same : len(old) - end], new[same : len(new) - end]
    place = f"@@ -{same + 1},{len(gone)} +{same + 1},{len(come)} @@"
    return [f"--- {old_is}", f"+++ {new_is}", place, *(f"-{line}" for line in gone), *(f"+{line}" for line in come)]

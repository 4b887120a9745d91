"""The body of an answer as JSON can hold it: text where its charset says so and is right, otherwise base 64."""

from __future__ import annotations

import re
from base64 import b64encode

from agent_gate.model.tool import Json

_CHARSET = re.compile(r';\s*charset\s*=\s*"?([A-Za-z0-9_.:-]+)"?\s*(?:;|\Z)', re.IGNORECASE).search
_KNOWN = re.compile(
    r"utf-?8|utf-?16(?:[bl]e)?|us-ascii|ascii|iso-?8859-?(?:[1-9]|1[013-6])|latin-?1|windows-?125[0-8]|koi8-[ru]"
    r"|shift_jis|euc-jp|euc-kr|iso-2022-jp|gb2312|gbk|gb18030|big5"
).fullmatch
"""Python knows codecs that run for hours or are no charsets at all; a server shall not choose one of those."""


def readable(body: bytes, content_type: str | None) -> dict[str, Json]:
    """The fields `body` and, where it is not the text itself, `body_encoding: base64`."""
    text = _text(body, content_type or "")
    return {"body": b64encode(body).decode(), "body_encoding": "base64"} if text is None else {"body": text}


def _text(body: bytes, content_type: str) -> str | None:
    named = _CHARSET(content_type)
    charset = named[1].lower() if named else "utf-8"
    if not _KNOWN(charset):
        return None
    try:
        return body.decode(charset)
    except (UnicodeDecodeError, LookupError):
        return None

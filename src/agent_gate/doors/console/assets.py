"""The stylesheet, the script and the icon: served under names that carry the hash of their content."""

from __future__ import annotations

from hashlib import sha256
from importlib.resources import files
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

_TYPES = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
_FOREVER = {
    "cache-control": "public, max-age=31536000, immutable",
    # An icon that is opened by itself is a document too.
    "content-security-policy": "default-src 'none'; style-src 'none'; frame-ancestors 'none'; sandbox",
    "x-content-type-options": "nosniff",
}


class Asset(NamedTuple):
    content: bytes
    media_type: str


class Assets:
    """Read once; a changed file has another name, so a browser never mixes two releases."""

    def __init__(self) -> None:
        self._served: dict[str, Asset] = {}
        self._names: dict[str, str] = {}
        for file in (files(__package__) / "static").iterdir():
            stem, _, kind = file.name.rpartition(".")
            if kind in _TYPES:
                content = file.read_bytes()
                self._names[file.name] = f"{stem}.{sha256(content).hexdigest()[:16]}.{kind}"
                self._served[self._names[file.name]] = Asset(content, _TYPES[kind])

    def url(self, name: str) -> str:
        return f"/console/static/{self._names[name]}"

    async def serve(self, request: Request) -> Response:
        asset = self._served.get(request.path_params["name"])
        if asset is None:
            return PlainTextResponse("there is no such file", 404)
        return Response(asset.content, headers=_FOREVER, media_type=asset.media_type)

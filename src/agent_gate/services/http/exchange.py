"""One request and its answer, over a connection to an address that was judged.

`httpcore2` is spoken to directly: it takes a URL in parts and a network of our own, so that no second reader of URLs,
resolver, proxy, cookie jar or follower of redirects stands between what was judged and what is sent.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import httpcore2

from agent_gate.model.bounds import DIAL_TIMEOUT_S, DIALS_MAX
from agent_gate.model.errors import ToolError
from agent_gate.policy.guards.headers import Headers
from agent_gate.policy.guards.urls import Url

Network = httpcore2.AsyncNetworkBackend

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
# At debug level it logs whole heads of answers, in which a server may repeat a credential.
logging.getLogger("httpcore2").setLevel(logging.WARNING)

_DEFAULTS = {"accept": "*/*", "user-agent": "agent-gate"}


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    headers: tuple[tuple[str, str], ...]
    """Names in lower case, in the order in which they came."""
    body: bytes
    """Empty where the answer sends us elsewhere: what it says besides is nobody's to read."""

    @property
    def location(self) -> str | None:
        """Find where a redirect leads."""
        return self.first("location") if self.status in _REDIRECTS else None

    def first(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name), None)


async def get(
    url: Url, addresses: Sequence[str], headers: Headers, bytes_max: int, network: Network, tls: ssl.SSLContext | None
) -> Reply:
    """Ask one of the judged addresses, by the host's own name; ToolError where no whole answer is to be had."""
    dialled = _Dialled(addresses, network)
    origin = httpcore2.Origin(url.scheme.encode(), url.host.encode(), url.port)
    connection = httpcore2.AsyncHTTPConnection(origin, ssl_context=tls, network_backend=dialled)
    try:
        response = await connection.handle_async_request(_request(url, headers))
        return await _reply(response, bytes_max)
    except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
        raise ToolError(
            f"`{url.authority}` cannot be reached: {_words(error)}",
            code=2006,
            suggestion="see whether the server is up",
        ) from None
    except (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.TimeoutException) as error:
        raise ToolError(f"`{url.authority}` did not answer properly: {_words(error)}") from None
    finally:
        await dialled.close()


def _request(url: Url, headers: Headers) -> httpcore2.Request:
    """Without compression: what it unpacks to would have to be bounded once more."""
    given = {**_DEFAULTS, **dict(headers)}
    ours = {"host": url.authority, **given, "accept-encoding": "identity", "connection": "close"}
    return httpcore2.Request(
        "GET",
        httpcore2.URL(scheme=url.scheme, host=url.host, port=url.port, target=url.target),
        headers=list(ours.items()),
    )


async def _reply(response: httpcore2.Response, bytes_max: int) -> Reply:
    headers = tuple((name.decode("ascii").lower(), _text(value)) for name, value in response.headers)
    reply = Reply(response.status, headers, b"")
    if reply.location is not None:
        return reply
    announced = reply.first("content-length")
    if announced is not None and announced.isascii() and announced.isdigit() and int(announced) > bytes_max:
        raise _too_large(bytes_max)
    body = bytearray()
    async for chunk in response.aiter_stream():
        body += chunk
        if len(body) > bytes_max:
            raise _too_large(bytes_max)
    return Reply(response.status, headers, bytes(body))


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _too_large(bytes_max: int) -> ToolError:
    return ToolError(
        f"the answer has more than {bytes_max} bytes", code=2005, suggestion="ask for less, or raise max_response_bytes"
    )


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__


class _Dialled(httpcore2.AsyncNetworkBackend):
    """A network in which every host is the judged addresses and nothing else."""

    def __init__(self, addresses: Sequence[str], network: Network) -> None:
        self._addresses, self._network = addresses[:DIALS_MAX], network
        self._streams: list[httpcore2.AsyncNetworkStream] = []

    async def connect_tcp(
        self,
        host: str,  # noqa: ARG002 -- the name is for Host and SNI; it is never dialled
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109, ARG002 -- the whole errand has one deadline
        local_address: str | None = None,  # noqa: ARG002 -- the shape of a network
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        failure: Exception = httpcore2.ConnectError("no address was judged")
        for address in self._addresses:
            try:
                stream = await self._network.connect_tcp(
                    address, port, timeout=DIAL_TIMEOUT_S, socket_options=socket_options
                )
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
            else:
                self._streams.append(stream)
                return stream
        raise failure

    async def close(self) -> None:
        """Whatever was begun with a stream, TLS included, ends with it."""
        for stream in self._streams:
            await stream.aclose()

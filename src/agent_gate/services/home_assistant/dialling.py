"""Opening a WebSocket to a home, and saying who comes."""

from __future__ import annotations

import logging
import os
from typing import Any

import orjson
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from agent_gate.model.bounds import HOME_GOODBYE_S, HOME_MESSAGE_BYTES_MAX
from agent_gate.model.redaction import HIDDEN_IN_LOGS, Redactor
from agent_gate.services.home_assistant.address import Address
from agent_gate.services.home_assistant.faults import AuthRefused, Lost, one_line

_wire_log = logging.getLogger(f"{__name__}.wire")
_wire_log.setLevel(logging.WARNING)  # below that the library writes each frame out, the token's too

_HINTS = {
    401: "something in front of the home asks for a password of its own",
    403: "the home may have banned this host: see ip_bans.yaml there",
    404: "is a home assistant there, and is the path of the url right?",
}


class _Dial(connect):
    def process_redirect(self, exc: Exception) -> Exception | str:
        """None is followed: the token is for the home that the configuration names."""
        return exc


async def dial(address: Address, token: str) -> tuple[ClientConnection, str]:
    """An authenticated socket, and the server's version."""
    tls: dict[str, Any] = {"ssl": address.tls} if address.tls is not None else {}
    try:
        socket = await _Dial(
            address.websocket_url,
            user_agent_header="agent-gate",
            proxy=None,
            compression=None,
            open_timeout=None,
            ping_interval=None,
            close_timeout=HOME_GOODBYE_S,
            max_size=HOME_MESSAGE_BYTES_MAX,
            logger=_wire_log,
            **tls,
        )
    except (OSError, EOFError, WebSocketException, ValueError) as error:
        raise Lost(_reason(error, address), sent=False) from None
    try:
        return socket, await _introduce(socket, token)
    except ConnectionClosed:
        await socket.close()
        raise Lost("it hung up before it said who may come in", sent=False) from None
    except BaseException:
        await socket.close()
        raise


async def _introduce(socket: ClientConnection, token: str) -> str:
    asked = await _heard(socket)
    if asked.get("type") != "auth_required":
        raise Lost("it does not speak as home assistant does", sent=False)
    await socket.send(orjson.dumps({"type": "auth", "access_token": token}), text=True)
    answer = await _heard(socket)
    if answer.get("type") == "auth_invalid":
        message = Redactor([token], mark=HIDDEN_IN_LOGS).text(str(answer.get("message") or ""))
        raise AuthRefused(f"home assistant refuses the token: {one_line(message)}")
    if answer.get("type") != "auth_ok":
        raise Lost("it does not speak as home assistant does", sent=False)
    return str(answer.get("ha_version") or asked.get("ha_version") or "")


async def _heard(socket: ClientConnection) -> dict[str, Any]:
    try:
        message = orjson.loads(await socket.recv(decode=False))
    except orjson.JSONDecodeError:
        message = None
    return message if isinstance(message, dict) else {}


def _reason(error: BaseException, address: Address) -> str:
    """Say why there is no connection, and where to look."""
    if isinstance(error, InvalidStatus):
        status = error.response.status_code
        hint = _HINTS.get(status, "it may be starting")
        return f"it answers with status {status}; {hint}"
    if isinstance(error, ConnectionClosed):
        return f"it hung up before it answered; {_hint_of_scheme(address)}"
    if isinstance(error, ConnectionError) and error.errno:
        return os.strerror(error.errno).lower()  # asyncio's own text tells of a call that failed
    if isinstance(error, ConnectionError) and address.tls:
        return f"it hung up; {_hint_of_scheme(address)}"
    text = one_line(getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()
    if "certificate" in text:
        return f"{text}; trust its certificate on this host, or set verify_ssl to false"
    if "wrong version number" in text or "record layer" in text or "eof occurred" in text:
        return f"{text}; {_WITHOUT_TLS}"
    if "valid http response" in text or "without sending a response" in text:
        return f"{text}; {_hint_of_scheme(address)}"
    return text


_WITHOUT_TLS = "does it speak TLS? without it write http://"


def _hint_of_scheme(address: Address) -> str:
    return _WITHOUT_TLS if address.tls else "does it speak TLS? with it write https://"

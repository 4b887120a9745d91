"""A running server, as commands reach it: the options that say where it is, whose token is shown, what it answers."""

from __future__ import annotations

import inspect
import re
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints
from urllib.parse import quote

import httpx2
import typer

from agent_gate.client.link import where_to_look
from agent_gate.config import Config, load_config
from agent_gate.doors.codes import Unreachable
from agent_gate.model.errors import ConfigError, GateError, IdentityError, Problem
from agent_gate.model.tool import Json

DEFAULT_URL = "http://127.0.0.1:8443"
TIMEOUT_S = 30.0
_ERRNO = re.compile(r"^\[Errno -?\d+\] ")


@dataclass(frozen=True, slots=True)
class Server:
    """The options of every command that talks to a server; each field is one, see `at_server`."""

    url: Annotated[
        str | None,
        typer.Option(
            "--url", metavar="URL", envvar="AGENT_GATE_URL", help="The server; that of --config if not named."
        ),
    ] = None
    token: Annotated[
        str | None,
        typer.Option(
            "--token", metavar="TOKEN", envvar="AGENT_GATE_TOKEN", help="Whose; the first one in --config if not named."
        ),
    ] = None
    config: Annotated[
        Path, typer.Option("-c", "--config", metavar="FILE", help="Where address and token stand, if it is there.")
    ] = Path("config.yaml")
    ca: Annotated[
        Path | None,
        typer.Option(
            "--ca", metavar="FILE", envvar="AGENT_GATE_CA", help="Certificates to trust besides the system's."
        ),
    ] = None

    def address(self, *, approver: bool) -> Address:
        """Combine what the command line or the environment says with what the configuration says."""
        is_whole = self.url is not None and self.token is not None
        config = load_config(self.config) if not is_whole and self.config.exists() else None
        url = self.url or (_url_of(config) if config else DEFAULT_URL)
        token = self.token or (_token_of(config, approver) if config else None)
        if token is None:
            whose = "an approver's" if approver else "an agent's"
            raise IdentityError(
                f"{whose} token is needed", suggestion="give --token, AGENT_GATE_TOKEN, or a --config that has one"
            )
        return Address(url.rstrip("/"), token, _tls(url, self.ca))

    @contextmanager
    def connected(self, *, approver: bool) -> Iterator[Remote]:
        """Open its HTTP API with an approver's token, or with an agent's."""
        address = self.address(approver=approver)
        headers = {"Authorization": f"Bearer {address.token}"}
        verify = address.tls if address.tls is not None else True
        try:
            client = httpx2.Client(headers=headers, trust_env=False, timeout=TIMEOUT_S, verify=verify)
        except UnicodeEncodeError:
            raise IdentityError("the token has characters that no token has", suggestion="check --token") from None
        with client:
            yield Remote(client, address.url)


CONFIGURED = Server()
"""The server that the configuration names."""


def at_server(command: Callable[..., int]) -> Callable[..., int]:
    """Put the options of a server where the command takes `server`: Typer knows no options in groups."""

    @wraps(command)
    def run(**given: Any) -> int:
        server = Server(**{field.name: given.pop(field.name) for field in fields(Server)})
        return command(server=server, **given)

    keyword_only, hints = inspect.Parameter.KEYWORD_ONLY, get_type_hints(Server, include_extras=True)
    options = [
        inspect.Parameter(field.name, keyword_only, default=field.default, annotation=hints[field.name])
        for field in fields(Server)
    ]
    declared = inspect.signature(command, eval_str=True)
    parameters: list[inspect.Parameter] = []
    for parameter in declared.parameters.values():
        parameters += options if parameter.name == "server" else [parameter.replace(kind=keyword_only)]
    run.__signature__ = declared.replace(parameters=parameters)  # type: ignore[attr-defined]
    return run


@dataclass(frozen=True, slots=True)
class Address:
    """Place of a server, and the token to show there."""

    url: str
    token: str
    tls: ssl.SSLContext | None


def _url_of(config: Config) -> str:
    gateway = config.gateway
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(gateway.host, gateway.host)  # noqa: S104 -- not listened on
    shown = f"[{host}]" if ":" in host else host
    return f"{'https' if gateway.tls else 'http'}://{shown}:{gateway.port}"


def _token_of(config: Config, approver: bool) -> str | None:
    holders = config.approvers if approver else config.agents
    return next((one.token for one in holders if one.token), None)


def _tls(url: str, ca: Path | None) -> ssl.SSLContext | None:
    if not url.startswith(("https:", "wss:")):
        return None
    context = ssl.create_default_context()
    if ca is not None:
        try:
            context.load_verify_locations(ca)
        except (OSError, ssl.SSLError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ConfigError(f"`{ca}` holds no certificates: {reason}", suggestion="name a file in PEM") from None
    return context


class Remote:
    """The HTTP API of a server, with one token."""

    def __init__(self, client: httpx2.Client, url: str) -> None:
        self._client, self._url = client, url

    def get(self, *path: str, **query: str | int) -> Json:
        return self._ask("GET", path, params=query)

    def post(self, *path: str, body: Mapping[str, Json] | None = None) -> Json:
        return self._ask("POST", path, json=dict(body or {}))

    def delete(self, *path: str) -> Json:
        return self._ask("DELETE", path)

    def _ask(self, method: str, path: tuple[str, ...], **options: Any) -> Json:
        place = "/api/v1/" + "/".join(quote(part, safe="") for part in path)
        try:
            response = self._client.request(method, self._url + place, **options)
            answer = response.json()
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            reason = _ERRNO.sub("", " ".join(str(error).split()) or type(error).__name__).lower().rstrip(".")
            raise Unreachable(f"cannot connect to `{self._url}`: {reason}", suggestion=where_to_look(reason)) from None
        except ValueError:
            raise Unreachable(
                f"`{self._url}` does not answer like a gate", suggestion="check --url, host and port"
            ) from None
        if response.is_success:
            return answer
        told = answer.get("error") if isinstance(answer, dict) else None
        if not isinstance(told, dict) or "code" not in told:
            raise Unreachable(f"`{self._url}` answered {response.status_code}", suggestion="check --url")
        problem = Problem.from_json(told)
        if response.status_code == 401:
            problem = replace(problem, suggestion="check --token, or the tokens in the configuration")
        raise GateError.of(problem)

"""The start of a server: its settings, its certificate and its address, before anything is opened."""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass
from pathlib import Path

from agent_gate.config import Config, GatewayConfig, load_policy
from agent_gate.configuration import Configuration, read_configuration
from agent_gate.doors.codes import Unreachable
from agent_gate.doors.http import is_loopback
from agent_gate.model.bounds import CERTIFICATE_BYTES_MAX
from agent_gate.model.errors import ConfigError
from agent_gate.system.regular_files import read_regular

BACKLOG = 1_024


@dataclass(frozen=True, slots=True)
class Settings:
    configuration: Configuration
    policy_path: Path
    tls: ssl.SSLContext | None

    @property
    def config(self) -> Config:
        return self.configuration.config

    @property
    def db(self) -> Path:
        return Path(self.config.storage.path)


def settings_of(config_path: Path, policy_path: Path, *, insecure: bool = False) -> Settings:
    """Both files, read and checked; ConfigError where a server may not be started with them."""
    configuration = read_configuration(config_path)
    load_policy(policy_path)
    gateway = configuration.config.gateway
    if gateway.tls is None and not insecure and not is_loopback(gateway.host):
        raise ConfigError(
            f"gateway.tls: missing, and `{gateway.host}` can be reached from elsewhere: tokens would travel in clear",
            suggestion="give a certificate under gateway.tls, listen on 127.0.0.1, or say --insecure",
        )
    return Settings(configuration, policy_path, _tls_of(gateway))


def _tls_of(gateway: GatewayConfig) -> ssl.SSLContext | None:
    if gateway.tls is None:
        return None
    for name, path in (("cert", gateway.tls.cert), ("key", gateway.tls.key)):
        try:
            read_regular(path, CERTIFICATE_BYTES_MAX)
        except OSError as error:
            raise ConfigError(
                f"gateway.tls.{name}: `{path}` cannot be read: {error.strerror}", suggestion="check the path"
            ) from None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(gateway.tls.cert, gateway.tls.key, password=_no_password)
    except (ssl.SSLError, ValueError) as error:
        reason = getattr(error, "reason", None) or "not a certificate with its key"
        raise ConfigError(
            f"gateway.tls: `{gateway.tls.cert}` and `{gateway.tls.key}` cannot be used: {reason}",
            suggestion="give a certificate in PEM and its own private key without a password",
        ) from None
    return context


def _no_password() -> str:
    """A server cannot be asked for one."""
    raise ValueError("the private key has a password")


def bound_socket(gateway: GatewayConfig) -> socket.socket:
    """Taken before anything else is opened, so that a port that is not free changes nothing."""
    where = f"{gateway.host}:{gateway.port}"
    try:
        family, *_, address = socket.getaddrinfo(
            gateway.host, gateway.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.create_server(address[:2], family=family, backlog=BACKLOG)
        # asyncio does so itself, but not for sockets that were made without naming their protocol.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except OSError as error:
        # Python adds the address to the text of the system.
        reason = str(error.strerror or error).partition(" (")[0].lower()
        raise Unreachable(
            f"cannot listen on {where}: {reason}", suggestion="choose another host or port under gateway"
        ) from None

"""Where a home is, from one URL."""

from __future__ import annotations

import ssl

import pytest

from agent_gate.config import HomeAssistantConfig
from agent_gate.model.errors import ConfigError
from agent_gate.services.home_assistant.address import Address


@pytest.mark.parametrize(
    ("url", "rest_url", "websocket_url"),
    [
        ("http://home:8123", "http://home:8123", "ws://home:8123/api/websocket"),
        ("http://home:8123/", "http://home:8123", "ws://home:8123/api/websocket"),
        ("https://home", "https://home", "wss://home/api/websocket"),
        ("https://proxy/ha/", "https://proxy/ha", "wss://proxy/ha/api/websocket"),
        ("http://supervisor/core/api", "http://supervisor/core", "ws://supervisor/core/api/websocket"),
        ("http://[::1]:8123", "http://[::1]:8123", "ws://[::1]:8123/api/websocket"),
    ],
)
def test_the_scheme_of_the_websocket_follows_the_url_and_the_path_is_kept(
    url: str, rest_url: str, websocket_url: str
) -> None:
    address = Address.of(HomeAssistantConfig(url))
    assert (address.rest_url, address.websocket_url) == (rest_url, websocket_url)


@pytest.mark.parametrize(("verify_ssl", "mode"), [(False, ssl.CERT_NONE), (True, ssl.CERT_REQUIRED)])
def test_verify_ssl_only_says_whether_certificates_are_checked(verify_ssl: bool, mode: ssl.VerifyMode) -> None:
    address = Address.of(HomeAssistantConfig("https://home", verify_ssl=verify_ssl))
    assert address.tls is not None
    assert (address.tls.verify_mode, address.tls.check_hostname) == (mode, verify_ssl)
    assert address.websocket_url.startswith("wss://")
    assert Address.of(HomeAssistantConfig("http://home", verify_ssl=verify_ssl)).tls is None


@pytest.mark.parametrize("url", ["http://home:0", "http://home:99999", "http://["])
def test_what_is_no_address_is_a_mistake_of_the_configuration(url: str) -> None:
    with pytest.raises(ConfigError, match="is no address of a server; write http"):
        Address.of(HomeAssistantConfig(url))


def test_a_password_in_the_url_is_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigError, match="holds a user or a password") as raised:
        Address.of(HomeAssistantConfig("http://anna:hunter2@home:8123"))
    assert "hunter2" not in str(raised.value)

"""config.yaml becomes typed settings, or every mistake in it is told with line, field and remedy."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent_gate.config import (
    AgentConfig,
    ApproverConfig,
    ChainPolicyConfig,
    Config,
    ConfigError,
    GatewayConfig,
    HomeApproverConfig,
    HomeAssistantConfig,
    MessengerConfig,
    PolicyAgentConfig,
    ProjectConfig,
    RateLimitConfig,
    ServicesConfig,
    StorageConfig,
    TelegramConfig,
    TLSConfig,
    load_config,
)
from agent_gate.model.tool import Mode
from tests.unit.config.mistakes import as_far_as, mistakes

Load = Callable[[dict[str, Any]], Config]
Problems = Callable[[dict[str, Any]], tuple[str, ...]]

SMALL: dict[str, Any] = {"gateway": {"host": "127.0.0.1", "port": 8443}, "agent": {"token": "agent-secret"}}
BASE = {
    re.compile(r"gateway\b"): "gateway: {host: 127.0.0.1, port: 8443}\n",
    re.compile(r"agent\b"): "agent: {token: agent-secret}\n",
}
"""What a mistake of another field leaves right."""
TELEGRAM: dict[str, Any] = {"token": "bot-secret", "chat_id": -100777, "allowed_users": [123]}


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def load_fields(fields: dict[str, Any]) -> Config:
        file = tmp_path / "config.yaml"
        file.write_text(yaml.safe_dump(fields, sort_keys=False))
        return load_config(file)

    return load_fields


@pytest.fixture
def problems_of(load: Load, tmp_path: Path) -> Problems:
    def problems(fields: dict[str, Any]) -> tuple[str, ...]:
        with pytest.raises(ConfigError) as refused:
            load(fields)
        return tuple(problem.replace(f"{tmp_path}/", "") for problem in refused.value.problems)

    return problems


def changed(*path: str | int, to: Any) -> dict[str, Any]:
    """A copy of a small config in which one field has another value; `...` removes it."""
    fields: Any = copy.deepcopy(SMALL)
    around = fields
    for step in path[:-1]:
        around = around[step]
    if to is ...:
        del around[path[-1]]
    else:
        around[path[-1]] = to
    return dict(fields)


def test_the_smallest_config_has_every_default(load: Load) -> None:
    agent = AgentConfig("agent-secret", "default", ("operator",), ("default",), Mode.ASSISTED, "")
    assert load(SMALL) == Config(
        gateway=GatewayConfig("127.0.0.1", 8443, None),
        agent=agent,
        messenger=None,
        services=ServicesConfig(None),
        storage=StorageConfig("sqlite", "agent-gate.db"),
        approval_timeout=900,
        rate_limit=RateLimitConfig(10, 60),
        agents=(agent,),
        approvers=(),
        projects={"default": ProjectConfig({}, None)},
        policy_agent=None,
        chains={},
    )


def test_every_field_of_a_full_config_arrives(load: Load) -> None:
    fields = {
        "gateway": {"host": "0.0.0.0", "port": 1, "tls": {"cert": "c.pem", "key": "k.pem"}},
        "agents": [
            {
                "id": "night-shift",
                "token": "t1",
                "roles": ["operator"],
                "projects": ["home"],
                "mode": "autonomous",
                "owner": "anna",
            },
            {"id": "b", "token": "t2"},
        ],
        "approvers": [{"id": "anna", "token": "t3", "telegram_user_id": 123, "roles": ["admin"]}],
        "projects": {"home": {"initial_state": {"n": 1.0}, "state_schema": {"type": "object"}}},
        "messenger": {"type": "telegram", "telegram": {**TELEGRAM, "api_base_url": "http://127.0.0.1:1"}},
        "services": {
            "homeassistant": {
                "url": "http://ha:8123",
                "token": "t4",
                "verify_ssl": True,
                "websocket_ping_interval": 5,
                "poll_interval_seconds": 6,
                "snapshot_interval_seconds": 7,
                "approvals": [{"approver": "anna", "notify": "notify.mobile_app_a", "user_id": "0" * 31 + "f"}],
            },
        },
        "storage": {"type": "sqlite", "path": "x.db"},
        "approval_timeout": 60,
        "rate_limit": {"max_pending_approvals": 1, "max_requests_per_minute": 2},
        "policy_agent": {
            "socket_path": "/run/x.sock",
            "name": "n",
            "fail_on_unknown": False,
            "policy_timeout_ms": 1,
            "max_body_size": 2,
            "max_state_size": 3,
            "max_concurrent_requests": 4,
            "allow_empty_chain": True,
            "allow_uids": [0, 1000],
        },
        "chains": {"api": [{"name": "api_key", "metadata": {"k": 1.0}, "on_failure": "continue", "version": "1"}]},
    }
    assert load(fields) == Config(
        gateway=GatewayConfig("0.0.0.0", 1, TLSConfig("c.pem", "k.pem")),
        agent=None,
        messenger=MessengerConfig("telegram", TelegramConfig("bot-secret", -100777, [123], "http://127.0.0.1:1")),
        services=ServicesConfig(
            HomeAssistantConfig(
                "http://ha:8123",
                "t4",
                True,
                5,
                6,
                7,
                (HomeApproverConfig("anna", "notify.mobile_app_a", "0" * 31 + "f"),),
            ),
        ),
        storage=StorageConfig("sqlite", "x.db"),
        approval_timeout=60,
        rate_limit=RateLimitConfig(1, 2),
        agents=(
            AgentConfig("t1", "night-shift", ("operator",), ("home",), Mode.AUTONOMOUS, "anna"),
            AgentConfig("t2", "b"),
        ),
        approvers=(ApproverConfig("anna", "t3", 123, ("admin",)),),
        projects={"default": ProjectConfig(), "home": ProjectConfig({"n": 1.0}, {"type": "object"})},
        policy_agent=PolicyAgentConfig("/run/x.sock", "n", False, 1, 2, 3, 4, True, (0, 1000)),
        chains={"api": (ChainPolicyConfig("api_key", "1", {"k": 1.0}, "continue"),)},
    )


def test_sections_have_the_defaults_of_the_documents(load: Load) -> None:
    fields = {
        **SMALL,
        "messenger": {"type": "telegram", "telegram": TELEGRAM},
        "services": {"homeassistant": {"url": "http://ha:8123"}},
        "policy_agent": {"socket_path": "s"},
        "chains": {"outbound": [{"name": "headers"}]},
        "approvers": [{"id": "a", "telegram_user_id": 1}],
    }
    config = load(fields)
    assert (config.messenger, config.services, config.policy_agent, config.chains, config.approvers) == (
        MessengerConfig("telegram", TelegramConfig("bot-secret", -100777, [123], "https://api.telegram.org")),
        ServicesConfig(HomeAssistantConfig("http://ha:8123", "", False, 30, 60, 300, ())),
        PolicyAgentConfig("s", "agent-gate", True, 5000, 1048576, 65536, 100, False, ()),
        {"outbound": (ChainPolicyConfig("headers", "", {}, "deny"),)},
        (ApproverConfig("a", "", 1, ("operator",)),),
    )


def test_numbers_that_come_as_text_are_coerced_where_the_environment_gives_them(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"PORT": "8443", "CHAT": "-100999", "USER_A": "7", "TOKEN": "tok"}.items():
        monkeypatch.setenv(f"GATE_{name}", value)
    config = load(
        {
            "gateway": {"host": "h", "port": "${GATE_PORT}"},
            "agent": {"token": "${GATE_TOKEN}"},
            "approvers": [{"id": "a", "telegram_user_id": "${GATE_USER_A}"}],
            "messenger": {
                "type": "telegram",
                "telegram": {"token": "t", "chat_id": "${GATE_CHAT}", "allowed_users": ["${GATE_USER_A}", 8]},
            },
        }
    )
    assert config.messenger is not None
    assert (config.gateway.port, config.agent, config.approvers[0].telegram_user_id, config.messenger.telegram) == (
        8443,
        AgentConfig("tok"),
        7,
        TelegramConfig("t", -100999, [7, 8]),
    )


def test_numbers_written_as_text_in_the_file_are_coerced_too(load: Load) -> None:
    fields = changed("gateway", "port", to="9000")
    fields["messenger"] = {"type": "telegram", "telegram": {**TELEGRAM, "chat_id": "-5"}}
    config = load(fields)
    assert config.messenger is not None
    assert config.messenger.telegram is not None
    assert (config.gateway.port, config.messenger.telegram.chat_id) == (9000, -5)


def test_a_whole_float_is_an_integer(load: Load) -> None:
    assert repr(load(changed("gateway", "port", to=8443.0)).gateway.port) == "8443"


def test_secrets_do_not_show_in_a_repr(load: Load) -> None:
    config = load(
        {
            **SMALL,
            "approvers": [{"id": "a", "token": "approver-secret"}],
            "messenger": {"type": "telegram", "telegram": TELEGRAM},
            "services": {
                "homeassistant": {"url": "http://ha", "token": "ha-secret"},
            },
            "chains": {"api": [{"name": "api_key", "metadata": {"key": "chain-secret"}}]},
        }
    )
    assert "secret" not in repr(config)


@pytest.mark.parametrize(("text", "answers"), mistakes("config"))
def test_a_mistake_is_told_with_line_field_and_remedy(tmp_path: Path, text: str, answers: tuple[str, ...]) -> None:
    file = tmp_path / "config.yaml"
    given = text.replace("# no ", "").split("\n")
    file.write_text(text + "".join(line for key, line in BASE.items() if not any(map(key.match, given))))
    with pytest.raises(ConfigError) as refused:
        load_config(file)
    expected = tuple(f"{file}:{answer}" for answer in answers)
    assert as_far_as(refused.value.problems, expected) == expected


def test_no_two_people_or_agents_share_a_token_or_an_id(problems_of: Problems) -> None:
    fields = {
        "gateway": SMALL["gateway"],
        "agents": [{"id": "a", "token": "same-secret"}, {"id": "a", "token": "same-secret"}],
        "approvers": [
            {"id": "p", "token": "same-secret", "telegram_user_id": 5},
            {"id": "p", "token": "own", "telegram_user_id": 5},
        ],
    }
    assert problems_of(fields) == (
        "config.yaml:7: agents[1].id: the same as agents[0].id; each agent needs an id of its own",
        "config.yaml:8: agents[1].token: the same as agents[0].token; each needs a token of its own",
        "config.yaml:11: approvers[0].token: the same as agents[0].token; each needs a token of its own",
        "config.yaml:13: approvers[1].id: the same as approvers[0].id; each is one person",
        "config.yaml:15: approvers[1].telegram_user_id: the same as approvers[0].telegram_user_id; each is one person",
    )


def test_all_problems_of_a_file_are_told_at_once_in_the_order_of_their_lines(
    problems_of: Problems, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GATE_UNSET", raising=False)
    fields = {
        "gateway": {"host": 5, "port": "${GATE_UNSET}"},
        "agent": {"tokn": "x"},
        "storage": {"type": "sqlite"},
        "approvers": [{"id": "a"}, "b"],
    }
    assert problems_of(fields) == (
        "config.yaml:2: gateway.host: `5` is not text; write it in quotes",
        "config.yaml:3: gateway.port: environment variable GATE_UNSET is not set; set it, or write a value",
        "config.yaml:4: agent.token: missing; a token: any text that is hard to guess and not empty",
        "config.yaml:5: agent.tokn: unknown field; did you mean `token`?",
        "config.yaml:6: storage.path: missing; write the path of the ledger",
        "config.yaml:9: approvers[0]: can never answer; give a token, a telegram_user_id, or a phone at home",
        "config.yaml:10: approvers[1]: the value is not a mapping",
    )


def test_an_empty_variable_is_an_empty_token(problems_of: Problems, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATE_EMPTY", "")
    (problem,) = problems_of(changed("agent", "token", to="${GATE_EMPTY}"))
    assert problem.startswith("config.yaml:5: agent.token: the value of ${GATE_EMPTY} is not a token: any text")


def test_a_missing_config_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"config\.yaml: no such file; check the path"):
        load_config()


def test_a_file_that_is_not_a_mapping_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("- a\n")
    with pytest.raises(ConfigError, match=r"c\.yaml:1: a list is not a mapping"):
        load_config(str(file))


def test_a_secret_in_the_wrong_place_is_not_repeated(problems_of: Problems) -> None:
    fields = {
        "gateway": SMALL["gateway"],
        "agent": "secret",
        "approvers": ["secret"],
        "messenger": "secret",
        "services": {"homeassistant": "secret", "mcp_servers": {"x": "secret"}},
        "storage": "secret",
    }
    problems = problems_of(fields)
    assert (len(problems), "secret" in str(problems)) == (6, False)


def test_a_service_can_be_asked_for_by_its_name(load: Load) -> None:
    services = load({**SMALL, "services": {"homeassistant": {"url": "http://ha"}}}).services
    assert services["homeassistant"] == HomeAssistantConfig("http://ha")
    for name in ("mcp_servers", "nosuch"):
        with pytest.raises(KeyError):
            services[name]

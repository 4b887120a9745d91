"""The chain inside the gate: who may come to `/api`, what `http.get` sends, and what a proxy is told by `serve`."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import jwt
import pytest
from starlette.types import ASGIApp

from agent_gate.chain.configured import check_chains
from agent_gate.config import ChainPolicyConfig, ConfigError, load_config, load_policy
from agent_gate.doors.context import ServerContext
from agent_gate.doors.observe import secrets_of
from agent_gate.doors.policy_agent.proto import policy_agent_pb2 as pb
from agent_gate.gate.traffic import Traffic
from agent_gate.hosts.server import build_app
from agent_gate.hosts.server.chains import Chains
from agent_gate.hosts.server.starting import settings_of
from agent_gate.model.bounds import GUESSES_PER_MINUTE
from agent_gate.system.clock import SystemClock
from tests.agents import a_client, a_ref, a_request
from tests.gates import ALLOW_ALL, ASK_ALL, PATIENCE_S, entries, reader, stored_bytes, until
from tests.servers import ANNA_TOKEN, BOB_TOKEN, BOT_TOKEN, CLERK_TOKEN, Served, a_config, a_raw_agent, a_server
from tests.serving import Running, a_site

pytestmark = pytest.mark.anyio

BOT_KEY, ANNA_KEY, OTHER_KEY = "key-of-the-bot-0123456789", "key-of-anna-0123456789", "key-of-nobody-0123456789"
KEYS = {"keys": [{"id": "bot", "key": BOT_KEY}, {"id": "anna", "key": ANNA_KEY}, {"id": "zoe", "key": OTHER_KEY}]}
SECRET = "a-secret-of-at-least-32-bytes-0123456789"
CALL = {"tool": "note.read", "args": {"text": "x"}}


def step(name: str, metadata: Any = None, **fields: Any) -> ChainPolicyConfig:
    return ChainPolicyConfig(name, metadata=metadata or {}, **fields)


def with_chains(context: ServerContext) -> ASGIApp:
    context.api_chain = Chains(context.config, Traffic(context.gate, context.identities.agents)).api()
    return build_app(context)


@asynccontextmanager
async def behind(directory: Path, *steps: ChainPolicyConfig, **changes: Any) -> AsyncIterator[Served]:
    config = a_config(chains={"api": steps}, **changes)
    async with a_server(directory, ALLOW_ALL, reader([]), config=config, app=with_chains) as served:
        yield served


async def asked(served: Served, path: str = "/calls", body: Any = CALL, /, **headers: str) -> httpx2.Response:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    async with httpx2.AsyncClient(base_url=f"{served.url}/api/v1", timeout=PATIENCE_S) as http:
        return await (http.get(path, headers=given) if body is None else http.post(path, json=body, headers=given))


async def test_a_key_of_the_chain_opens_the_api_as_the_agent_whose_it_is(tmp_path: Path) -> None:
    async with behind(tmp_path, step("api_key", KEYS)) as served:
        answer = await asked(served, x_api_key=BOT_KEY)
        assert (answer.status_code, answer.json()["status"]) == (200, "success")
        assert entries(served.gate, "settled")[-1]["agent_id"] == "bot"
        assert BOT_KEY.encode() not in stored_bytes(served.gate)


async def test_guessing_keys_is_slowed_down_as_guessing_tokens_is(tmp_path: Path) -> None:
    async with behind(tmp_path, step("api_key", KEYS)) as served:
        assert (await asked(served, x_api_key=BOT_KEY)).status_code == 200
        for number in range(GUESSES_PER_MINUTE):
            assert (await asked(served, x_api_key=f"guess-{number}")).status_code == 401
        assert (await asked(served, x_api_key=ANNA_KEY)).status_code == 429
        assert (await asked(served)).status_code == 401
        assert (await asked(served, x_api_key=BOT_KEY)).status_code == 200


async def test_a_key_never_opens_what_is_for_the_other_kind(tmp_path: Path) -> None:
    async with behind(tmp_path, step("api_key", KEYS)) as served:
        assert (await asked(served, "/grants", None, x_api_key=ANNA_KEY)).status_code == 200
        for answer in (
            await asked(served, "/grants", None, x_api_key=BOT_KEY),
            await asked(served, x_api_key=ANNA_KEY),
        ):
            assert (answer.status_code, answer.json()["error"]["code"]) == (403, 6003)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"x_api_key": "wrong-key-0123456789"}, 401),
        ({"authorization": f"Bearer {BOT_TOKEN}"}, 401),
        ({"x_api_key": OTHER_KEY}, 401),
        ({"x_api_key": BOT_KEY, "authorization": f"Bearer {CLERK_TOKEN}"}, 401),
        ({"x_api_key": BOT_KEY, "authorization": f"Bearer {ANNA_TOKEN}"}, 401),
        ({"x_api_key": BOT_KEY, "authorization": f"Bearer {BOT_TOKEN}"}, 200),
        ({"x_api_key": BOT_KEY, "authorization": "Bearer of somebody elsewhere"}, 200),
    ],
    ids=["nothing", "wrong", "token alone", "unknown id", "two agents", "agent and approver", "both", "other bearer"],
)
async def test_a_chain_only_narrows(tmp_path: Path, headers: dict[str, str], status: int) -> None:
    async with behind(tmp_path, step("api_key", KEYS)) as served:
        answer = await asked(served, **headers)
        assert answer.status_code == status
        assert "key-of" not in answer.text


async def test_an_id_that_is_an_agent_and_an_approver_is_neither(tmp_path: Path) -> None:
    agents = tuple(a for a in a_config().agents)
    both = (*agents, type(agents[0])("token-of-another-anna-0123456789", "anna"))
    async with behind(tmp_path, step("api_key", KEYS), agents=both) as served:
        answer = await asked(served, "/grants", None, x_api_key=ANNA_KEY)
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, 6002)


async def test_where_the_chain_names_nobody_a_token_is_needed_still(tmp_path: Path) -> None:
    async with behind(tmp_path, step("ip_allow", {"allow": ["127.0.0.0/8"]})) as served:
        assert (await asked(served)).status_code == 401
        assert (await asked(served, authorization=f"Bearer {BOT_TOKEN}")).status_code == 200
        assert (await asked(served, "/grants", None, authorization=f"Bearer {BOB_TOKEN}")).status_code == 200


async def test_a_bearer_key_is_taken_by_the_chain_so_that_every_client_fits(tmp_path: Path) -> None:
    keys = step("api_key", {**KEYS, "header": "Authorization", "scheme": "Bearer"})
    async with behind(tmp_path, keys) as served:
        assert (await asked(served, authorization=f"Bearer {BOT_KEY}")).status_code == 200
        assert (await asked(served, authorization=f"Bearer {BOT_TOKEN}")).status_code == 401


async def test_a_jwt_opens_the_api_as_whom_it_names(tmp_path: Path) -> None:
    said = {"algorithms": ["HS256"], "issuer": "https://issuer.example", "audience": "gate", "secret": SECRET}
    now = int(SystemClock().now())

    def token(subject: str, lasts_s: int = 60) -> str:
        claims = {"sub": subject, "iss": said["issuer"], "aud": "gate", "exp": now + lasts_s}
        return f"Bearer {jwt.encode(claims, SECRET, 'HS256')}"

    async with behind(tmp_path, step("jwt", said)) as served:
        assert (await asked(served, authorization=token("bot"))).status_code == 200
        assert (await asked(served, "/grants", None, authorization=token("anna"))).status_code == 200
        assert (await asked(served, authorization=token("nobody"))).status_code == 401
        assert (await asked(served, authorization=token("bot", -600))).status_code == 401


async def test_an_answer_of_the_chain_is_given_as_it_is_and_counted(tmp_path: Path) -> None:
    limit = step("rate_limit", {"limit": 1, "per_seconds": 3600, "by": "identity"})
    async with behind(tmp_path, step("api_key", KEYS), limit) as served:
        assert (await asked(served, x_api_key=BOT_KEY)).status_code == 200
        refused = await asked(served, x_api_key=BOT_KEY)
        assert (refused.status_code, int(refused.headers["retry-after"]) > 0) == (429, True)
        assert (await asked(served, "/grants", None, x_api_key=ANNA_KEY)).status_code == 200
        await until(lambda: [row for row in entries(served.gate, "door") if "rate_exceeded" in str(row["body"])])


async def test_a_chain_that_fails_lets_nobody_in(tmp_path: Path) -> None:
    broken = {
        "algorithms": ["RS256"],
        "issuer": "i",
        "audience": "a",
        "jwks_file": str(tmp_path / "missing.json"),
    }
    async with behind(tmp_path, step("jwt", broken)) as served:
        answer = await asked(served, authorization="Bearer a.b.c")
        assert answer.status_code in (401, 403, 503)
        assert "Traceback" not in answer.text


async def test_an_unknown_policy_in_a_running_chain_denies(tmp_path: Path) -> None:
    async with behind(tmp_path, step("nobody_knows")) as served:
        answer = await asked(served, authorization=f"Bearer {BOT_TOKEN}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, 6003)


async def test_the_document_of_the_api_is_behind_the_chain_too(tmp_path: Path) -> None:
    async with behind(tmp_path, step("api_key", KEYS)) as served, httpx2.AsyncClient() as http:
        assert (await http.get(f"{served.url}/api/openapi.json")).status_code == 401
        assert (await http.get(f"{served.url}/api/nothing")).status_code == 401
        assert (await http.get(f"{served.url}/healthz")).status_code == 200


async def test_websocket_and_console_do_not_ask_the_chain(tmp_path: Path) -> None:
    async with behind(tmp_path, step("api_key", KEYS)) as served, a_raw_agent(served, BOT_TOKEN) as agent:
        assert (await agent.ask("tool_request", **CALL))["status"] == "success"


@pytest.mark.parametrize("header", [b"x-odd: \xff\xfe", b"x-odd: caf\xc3\xa9"])
async def test_bytes_that_are_no_text_are_no_reason_to_fail(tmp_path: Path, header: bytes) -> None:
    async with behind(tmp_path, step("ip_allow", {"allow": ["127.0.0.1"]})) as served:
        stream_in, stream_out = await asyncio.open_connection("127.0.0.1", served.port)
        lines = [
            b"GET /api/v1/grants HTTP/1.1",
            f"host: 127.0.0.1:{served.port}".encode(),
            f"authorization: Bearer {ANNA_TOKEN}".encode(),
            header,
            b"connection: close",
        ]
        stream_out.write(b"\r\n".join(lines) + b"\r\n\r\n")
        assert (await stream_in.read()).startswith(b"HTTP/1.1 200")
        stream_out.close()


BAD_STEPS = [
    ("api: [{name: api_keys}]", 4, "chains.api[0].name: no policy is called `api_keys`; known are api_key,"),
    ("api: [{name: api_key, version: '9'}]", 4, "chains.api[0].version: policy `api_key` is there in version 1.0.0"),
    ("api: [{name: api_key}]", 4, 'chains.api[0].name: "keys" is a required property'),
    ("api:\n  - name: ip_allow\n    metadata:\n      allow: [x]", 6, "chains.api[0].metadata"),
    ("api:\n  - {name: secret_scrub, metadata: {patterns: [all]}}", 5, "works on responses"),
    ("api:\n  - {name: set_headers, metadata: {headers: {A: b}, phase: response}}", 5, "works on responses"),
    ("outbound: [{name: gate}]", 4, "calls of `http.get` are judged by the policy already"),
    ("outbound: [{name: set_headers, metadata: {headers: {A: b}}}]", 4, "needs `hosts`"),
    ("outbound: [{name: set_headers, metadata: {hosts: [a/b], headers: {A: b}}}]", 4, "hosts: a host has no path"),
    ("outbound: [{name: set_headers, metadata: {hosts: ['*'], headers: {A: é}}}]", 4, "printable ASCII"),
    ("api: [{name: api_key, metadata: {keys: [{id: a, key: tooshort}]}}]", 4, "chains.api[0].metadata"),
]


@pytest.mark.parametrize(("chains", "line", "text"), BAD_STEPS)
def test_a_mistake_in_a_chain_is_told_with_its_line(tmp_path: Path, chains: str, line: int, text: str) -> None:
    file = tmp_path / "config.yaml"
    indented = chains.replace("\n", "\n  ")
    file.write_text(f"gateway: {{host: 127.0.0.1, port: 1}}\nagent: {{token: t}}\nchains:\n  {indented}\n")
    with pytest.raises(ConfigError) as refused:
        load_config(file, check=lambda value, problems: check_chains(value, problems, SystemClock()))
    (problem,) = refused.value.problems
    assert problem.startswith(f"{file}:{line}: chains.")
    assert text in problem
    assert "tooshort" not in problem


def test_the_files_of_the_guide_are_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guide = (Path(__file__).parents[2] / "docs/guides/chain.md").read_text()
    policies, chains, rules = re.findall(r"^```yaml\n(.*?)^```$", guide, re.M | re.S)
    for name in ("KITCHEN_KEY", "ANNA_KEY", "SHOP_TOKEN", "TENANT_PASSWORD"):
        monkeypatch.setenv(name, f"{name.lower()}-0123456789abcdef")
    file = tmp_path / "config.yaml"
    file.write_text(f"gateway: {{host: 127.0.0.1, port: 1}}\nagent: {{token: t}}\n{policies}{chains}")
    # The policy `tenant` is the reader's own.
    with pytest.raises(ConfigError, match=r"policies\.tenant: no policy is called `tenant`"):
        load_config(file, check=lambda value, problems: check_chains(value, problems, SystemClock()))
    config = load_config(file)
    assert config.policies["tenant"]["cache_seconds"] == 60
    assert "tenant_password-0123456789abcdef" in secrets_of(config)
    (tmp_path / "policy.yaml").write_text(rules)
    load_policy(tmp_path / "policy.yaml")


def test_unknown_policies_are_no_mistake_where_the_file_says_so(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        "gateway: {host: 127.0.0.1, port: 1}\nagent: {token: t}\n"
        "policy_agent: {socket_path: /x, fail_on_unknown: false}\nchains: {api: [{name: other}]}\n"
    )
    config = load_config(file, check=lambda value, problems: check_chains(value, problems, SystemClock()))
    assert config.chains["api"] == (step("other"),)


def test_what_chains_hold_is_never_logged() -> None:
    chains = {
        "api": (step("api_key", KEYS), step("jwt", {"secret": SECRET})),
        "outbound": (step("set_headers", {"headers": {"Authorization": "Bearer upstream-0123"}, "hosts": ["*"]}),),
    }
    assert {BOT_KEY, SECRET, "upstream-0123"} <= set(secrets_of(a_config(chains=chains)))


def test_serve_refuses_a_chain_with_a_mistake(tmp_path: Path) -> None:
    site = a_site(tmp_path, ALLOW_ALL, chains={"api": [{"name": "api_keys"}]})
    with pytest.raises(ConfigError, match="no policy is called `api_keys`"):
        settings_of(site.directory / "config.yaml", site.directory / "policy.yaml")


async def test_a_server_with_chains_as_people_run_it(tmp_path: Path) -> None:
    """A key opens the API, a credential is added outside, and a proxy's request waits for a person."""
    heads: list[str] = []

    async def upstream(stream_in: asyncio.StreamReader, stream_out: asyncio.StreamWriter) -> None:
        heads.append((await stream_in.readuntil(b"\r\n\r\n")).decode())
        body = f"you sent {heads[-1]}".encode()
        stream_out.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
        stream_out.close()

    server = await asyncio.start_server(upstream, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    section = {
        "allow_domains": ["127.0.0.1"],
        "allow_schemes": ["http"],
        "allow_ports": [port],
        "deny_private_ips": False,
    }
    secret = "upstream-credential-0123456789"
    site = a_site(
        tmp_path,
        {**ASK_ALL, "rules": [{"pattern": "http.request(*)", "action": "ask"}], "tools": {"http.get": section}},
        policy_agent={"socket_path": str(tmp_path / "agent" / "s")},
        chains={
            "api": [
                {
                    "name": "api_key",
                    "metadata": {"keys": [{"id": "bot-0", "key": BOT_KEY}, {"id": "anna", "key": ANNA_KEY}]},
                }
            ],
            "outbound": [
                {
                    "name": "set_headers",
                    "metadata": {
                        "headers": {"Authorization": f"Bearer {secret}"},
                        "hosts": [f"http://127.0.0.1:{port}"],
                    },
                }
            ],
        },
    )
    async with server:
        running = await asyncio.to_thread(Running, site)
        with running:
            assert running.told["policies"] == str(tmp_path / "agent" / "s")
            await _fetch_through(running, port, secret, heads)
            await _ask_as_a_proxy(running, Path(running.told["policies"]))
            assert running.stop() == 0
    assert secret.encode() not in _kept(tmp_path)


def _kept(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in directory.glob("gate.db*") if path.is_file())


async def _fetch_through(running: Running, port: int, secret: str, heads: list[str]) -> None:
    async with httpx2.AsyncClient(base_url=running.url, headers={"x-api-key": BOT_KEY}, timeout=PATIENCE_S) as http:
        call = {"tool": "http.get", "args": {"url": f"http://127.0.0.1:{port}/x"}}
        answer = await http.post("/api/v1/calls", json=call)
    assert answer.status_code == 200, answer.text
    assert f"authorization: Bearer {secret}" in heads[0]
    assert secret not in answer.text
    assert "***" in answer.json()["data"]["body"]


async def _ask_as_a_proxy(running: Running, socket: Path) -> None:
    request = a_request(a_ref("gate", agent_id="bot-0"), method="DELETE", authority="shop.example", path="/orders/1")
    async with a_client(socket) as client:
        held = await client.execute(request)
        answer = held.instructions[-1].immediate_response
        call_id = json.loads(answer.body)["call_id"]
        async with httpx2.AsyncClient(base_url=running.url, headers={"x-api-key": ANNA_KEY}) as http:
            pending = (await http.get("/api/v1/pending")).json()["pending"]
            assert [one["signatures"] for one in pending] == [["http.request(DELETE https://shop.example/orders/1)"]]
            approved = await http.post(f"/api/v1/pending/{call_id}/approve", json={})
            assert approved.status_code == 200, approved.text
        codes = [(await client.execute(request)).status.code for _ in range(2)]
        assert codes == [pb.Status.OK, pb.Status.POLICY_DENIED]
    async with httpx2.AsyncClient(base_url=running.url, headers={"x-api-key": BOT_KEY}) as http:
        outcome = (await http.get(f"/api/v1/calls/{call_id}")).json()
        assert (outcome["status"], outcome["message"]) == ("success", "let through; it is performed elsewhere")

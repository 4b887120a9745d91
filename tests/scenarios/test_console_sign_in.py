"""The console's door: who gets in, for how long, and what a foreign page or a forged form can do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_gate.config import GatewayConfig, TLSConfig
from agent_gate.doors import throttle
from agent_gate.doors.console import sessions
from agent_gate.doors.console.frame import HEADERS, place_within
from agent_gate.hosts.server import build_app
from agent_gate.model.bounds import CONSOLE_SESSION_IDLE_S, CONSOLE_SESSION_S, CONSOLE_SESSIONS_OF_ONE_MAX
from tests.gates import ASK_ALL, HandClock, entries, sender, until
from tests.scenarios.visiting import Page, Visitor, a_visitor, another, asked
from tests.servers import ANNA_TOKEN, BOB_TOKEN, BOT_TOKEN, a_config, a_context

PAGES = ("", "/timeline", "/runs", "/state", "/state/default", "/check", "/grants", "/switch", "/health")
FORMS = (
    "/questions/x/answer", "/questions/x/try", "/calls/x/undo", "/state/default/revert", "/check", "/grants/x/revoke",
    "/switch/pause", "/switch/resume", "/health/verify", "/sign-out",
)  # fmt: skip


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def visitor(tmp_path: Path, clock: HandClock) -> AsyncIterator[Visitor]:
    async with a_visitor(tmp_path, ASK_ALL, token=None, clock=clock) as visitor:
        yield visitor


async def test_an_approver_s_token_opens_the_console_and_its_cookie_is_out_of_reach(visitor: Visitor) -> None:
    answer = await visitor.sign_in()
    assert (answer.status_code, answer.headers["location"]) == (303, "/console")
    name, *flags = [part.strip() for part in answer.headers["set-cookie"].split(";")]
    assert {flag.lower() for flag in flags} == {"httponly", "path=/console", "samesite=strict"}
    assert ANNA_TOKEN not in name
    assert "anna" in (await visitor.see()).text


async def test_the_address_alone_leads_to_the_console(visitor: Visitor) -> None:
    answer = await visitor.client.get("/")
    assert (answer.status_code, answer.headers["location"]) == (303, "/console")


async def test_with_tls_the_cookie_is_secure_and_bound_to_this_host(tmp_path: Path) -> None:
    config = a_config(gateway=GatewayConfig("127.0.0.1", 0, TLSConfig("cert.pem", "key.pem")))
    async with a_visitor(tmp_path, ASK_ALL, token=None, config=config) as visitor:
        cookie = (await visitor.sign_in()).headers["set-cookie"]
    name, *flags = [part.strip() for part in cookie.split(";")]
    assert name.startswith("__Host-")
    assert {flag.lower() for flag in flags} == {"httponly", "path=/", "samesite=strict", "secure"}


@pytest.mark.parametrize("token", ["", "wrong", BOT_TOKEN, "x" * 100_000, "\U0001f600", "tok\r\nSet-Cookie: a=b"])
async def test_no_other_token_does_and_nothing_tells_which_was_near(visitor: Visitor, token: str) -> None:
    answer = await visitor.sign_in(token)
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers
    assert "This token is not an approver's" in Page(answer.text).text
    assert not token or token not in answer.text

    def refused() -> list[Any]:
        return [line for entry in entries(visitor.context.gate, "door") for line in entry["body"]["refused"]]

    await until(refused)
    assert refused() == [{"agent_id": "console:127.0.0.1", "count": 1, "why": "not_authenticated"}]


async def test_guessing_is_slowed_down_and_waiting_helps(visitor: Visitor, clock: HandClock) -> None:
    for _ in range(10):
        assert (await visitor.sign_in("wrong")).status_code == 401
    answer = await visitor.sign_in(ANNA_TOKEN)
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "7")
    assert "wait 7 seconds" in Page(answer.text).text
    clock.advance(6.1)
    assert (await visitor.sign_in("wrong")).status_code == 401
    assert (await visitor.sign_in(ANNA_TOKEN)).status_code == 429
    clock.advance(60)
    assert (await visitor.sign_in(ANNA_TOKEN)).status_code == 303


def test_one_household_is_one_address_and_addresses_are_forgotten(clock: HandClock) -> None:
    slowed = throttle.Throttle(clock.monotonic, addresses_max=2)
    for number in range(10):
        slowed.failed(f"2001:db8::{number}")
    assert slowed.wait_s("2001:db8::ffff") > 0
    assert slowed.wait_s("2001:db8:0:1::1") == 0
    for address in ("192.0.2.1", "somewhere"):
        slowed.failed(address)
    assert slowed.wait_s("2001:db8::ffff") == 0


async def test_a_cookie_that_was_brought_along_is_never_adopted(visitor: Visitor) -> None:
    planted = "planted-by-somebody-else"
    visitor.client.cookies.set("agent-gate", planted, domain="127.0.0.1", path="/console")
    await visitor.sign_in()
    given = [cookie.value for cookie in visitor.client.cookies.jar if cookie.value != planted]
    assert len(given) == 1
    async with another(visitor.context, visitor.app, None) as attacker:
        attacker.client.cookies.set("agent-gate", planted, domain="127.0.0.1", path="/console")
        assert (await attacker.client.get("/console")).status_code == 303


async def test_signing_in_again_ends_the_session_before(visitor: Visitor) -> None:
    await visitor.sign_in()
    earlier = visitor.cookie()
    await visitor.sign_in(BOB_TOKEN)
    assert visitor.cookie() != earlier
    visitor.client.cookies.clear()
    visitor.client.cookies.set("agent-gate", earlier, domain="127.0.0.1", path="/console")
    assert (await visitor.client.get("/console")).status_code == 303


async def test_signing_out_ends_the_session_here_and_not_only_in_the_browser(visitor: Visitor) -> None:
    await visitor.sign_in()
    cookie, page = visitor.cookie(), await visitor.see()
    answer = await visitor.send(page, "/sign-out")
    assert "You are signed out" in answer.text
    assert 'agent-gate="";' in answer.headers["set-cookie"]
    visitor.client.cookies.set("agent-gate", cookie, domain="127.0.0.1", path="/console")
    assert (await visitor.client.get("/console")).status_code == 303


async def test_a_session_ends_when_nobody_uses_it(visitor: Visitor, clock: HandClock) -> None:
    await visitor.sign_in()
    for _ in range(3):
        clock.advance(CONSOLE_SESSION_IDLE_S - 1)
        await visitor.see()
    clock.advance(CONSOLE_SESSION_IDLE_S + 1)
    assert (await visitor.client.get("/console")).status_code == 303


async def test_what_a_page_does_by_itself_keeps_no_session_alive(visitor: Visitor, clock: HandClock) -> None:
    await visitor.sign_in()
    clock.advance(CONSOLE_SESSION_IDLE_S - 1)
    automatic = {"x-console-refresh": "automatic"}
    assert (await visitor.client.get("/console", headers=automatic)).status_code == 200
    clock.advance(2)
    assert (await visitor.client.get("/console", headers=automatic)).status_code == 401


async def test_a_session_ends_after_its_whole_time_however_it_is_used(visitor: Visitor, clock: HandClock) -> None:
    await visitor.sign_in()
    for _ in range(int(CONSOLE_SESSION_S / 1000)):
        clock.advance(1000)
        await visitor.see()
    clock.advance(1000)
    assert (await visitor.client.get("/console")).status_code == 303


def test_sessions_are_bounded_and_the_idlest_gives_way(clock: HandClock) -> None:
    kept = sessions.Sessions(clock.monotonic, most=20)
    of_anna = [kept.begin("anna")[0] for _ in range(CONSOLE_SESSIONS_OF_ONE_MAX + 1)]
    assert kept.find(of_anna[0]) is None
    assert kept.find(of_anna[1]) is not None
    others = [kept.begin(f"person-{number}")[0] for number in range(10)]
    assert len(kept) == 20
    assert (kept.find(of_anna[2]), kept.find(of_anna[1]) is not None) == (None, True)
    assert all(kept.find(cookie) for cookie in others)
    clock.advance(CONSOLE_SESSION_IDLE_S + 1)
    kept.begin("bob")
    assert len(kept) == 1


@pytest.mark.parametrize("path", PAGES)
async def test_every_page_needs_a_session_and_leads_back_after_signing_in(visitor: Visitor, path: str) -> None:
    answer = await visitor.client.get(f"/console{path}")
    assert answer.status_code == 303
    page = await visitor.see(answer.headers["location"])
    signed_in = await visitor.send(page, "/sign-in", token=ANNA_TOKEN)
    assert signed_in.headers["location"] == f"/console{path}"
    await visitor.see(signed_in.headers["location"])


@pytest.mark.parametrize("path", [*FORMS, "/events"])
async def test_without_a_session_nothing_can_be_done(visitor: Visitor, path: str) -> None:
    send = visitor.client.get if path == "/events" else visitor.client.post
    assert (await send(f"/console{path}")).status_code in (303, 401)
    assert entries(visitor.context.gate, "project", "answered", "grant", "settled") == []


@pytest.mark.parametrize("path", [path for path in FORMS if path != "/check"])
async def test_nothing_is_done_by_following_a_link(visitor: Visitor, path: str) -> None:
    await visitor.sign_in()
    assert (await visitor.client.get(f"/console{path}")).status_code == 405


@pytest.mark.parametrize("csrf", [None, "", "forged", "theirs", "é"])
@pytest.mark.parametrize("path", FORMS)
async def test_a_form_must_carry_the_token_of_its_session(visitor: Visitor, path: str, csrf: str | None) -> None:
    await visitor.sign_in()
    if csrf == "theirs":
        async with another(visitor.context, visitor.app, BOB_TOKEN) as bob:
            csrf = (await bob.see()).form("/sign-out").fields["csrf"]
    before = entries(visitor.context.gate)
    answer = await visitor.client.post(f"/console{path}", data={"verb": "allow"} if csrf is None else {"csrf": csrf})
    assert answer.status_code == 403
    assert "The form is not of this session".lower() in Page(answer.text).text.lower()
    assert [entry["kind"] for entry in entries(visitor.context.gate)[len(before) :] if entry["kind"] != "door"] == []
    await visitor.see()


async def test_an_answer_from_a_page_of_another_site_does_not_count(tmp_path: Path) -> None:
    acts: list[str] = []
    async with a_visitor(tmp_path, ASK_ALL, sender(acts)) as visitor:
        question = await asked(visitor.context, "mail.send", {"text": "x"})
        form = (await visitor.see()).form("/answer")
        answer = await visitor.client.post(
            form.action, data={**form.fields, "verb": "allow"}, headers={"origin": "https://evil.test"}
        )
        assert answer.status_code == 403
        assert await visitor.context.approvals.question(question.call_id)
        assert acts == []


async def test_a_page_of_another_site_cannot_sign_somebody_in(visitor: Visitor) -> None:
    for headers in ({"origin": "https://evil.test"}, {"sec-fetch-site": "cross-site"}):
        answer = await visitor.client.post("/console/sign-in", data={"token": ANNA_TOKEN}, headers=headers)
        assert (answer.status_code, "set-cookie" in answer.headers) == (403, False)


EVIL = (
    "https://evil.test", "//evil.test", "/\\evil.test", "/console//evil.test", "/console/../../x",
    "/console/%2e%2e/x", "javascript:alert(1)",
    "/console\r\nSet-Cookie: a=b", "/consoles", "/console@evil.test", "/console/%0d%0a?x=\n", "\t//evil.test",
)  # fmt: skip


@pytest.mark.parametrize("wanted", EVIL)
async def test_signing_in_leads_nowhere_but_into_the_console(visitor: Visitor, wanted: str) -> None:
    page = Page((await visitor.client.get("/console/sign-in", params={"next": wanted})).text)
    assert page.form("/sign-in").fields["next"] == "/console"
    answer = await visitor.client.post("/console/sign-in", data={"token": ANNA_TOKEN, "next": wanted})
    assert answer.headers["location"] == "/console"
    assert answer.headers.get_list("set-cookie") == [answer.headers["set-cookie"]]


def test_a_place_in_the_console_is_kept() -> None:
    for wanted in (
        "/console",
        "/console/calls/01J",
        "/console?call=01J",
        "/console/state/home?from=1&to=2",
        "/console/timeline?text=a%20b",
    ):
        assert place_within(wanted) == wanted


@pytest.mark.parametrize(
    "path", [*(f"/console{path}" for path in PAGES), "/console/sign-in", "/console/nowhere", "/console/calls/x"]
)
async def test_every_answer_forbids_frames_foreign_scripts_and_caches(visitor: Visitor, path: str) -> None:
    for _ in range(2):
        answer = await visitor.client.get(path, follow_redirects=True)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        await visitor.sign_in()
    assert "require-trusted-types-for 'script'" in HEADERS["content-security-policy"]


async def test_no_page_loads_or_runs_anything_but_the_console_s_own_files(visitor: Visitor) -> None:
    await visitor.sign_in()
    for path in PAGES:
        page = await visitor.see(f"/console{path}")
        for tag, attributes in page.elements:
            assert tag != "style"
            assert "style" not in attributes
            assert not [name for name in attributes if name.startswith("on")]
            source = attributes.get("src") or (attributes.get("href") if tag == "link" else None)
            if source is not None:
                assert source.startswith("/console/static/")
                file = await visitor.client.get(source)
                assert (file.status_code, "immutable" in file.headers["cache-control"]) == (200, True)


@pytest.mark.parametrize("name", ["nothing.css", "..%2fframe.py", "%2e%2e/frame.py", "console.css"])
async def test_no_other_file_is_served(visitor: Visitor, name: str) -> None:
    assert (await visitor.client.get(f"/console/static/{name}")).status_code == 404


async def test_a_form_that_is_none_or_too_large_is_refused(visitor: Visitor) -> None:
    json = {"content-type": "application/json"}
    assert (await visitor.client.post("/console/sign-in", content=b"{}", headers=json)).status_code == 400
    form = {"content-type": "application/x-www-form-urlencoded"}
    for body in (b"token=\xff", b"&".join(b"a=1" for _ in range(100)), b"token=" + b"x" * 2_000_000):
        assert (await visitor.client.post("/console/sign-in", content=body, headers=form)).status_code == 400


async def test_an_approver_without_a_token_cannot_sign_in(tmp_path: Path) -> None:
    config = a_config()
    config = replace(config, approvers=(replace(config.approvers[0], token=""),))
    async with (
        a_context(tmp_path, ASK_ALL, config=config) as context,
        another(context, build_app(context), None) as visitor,
    ):
        assert (await visitor.sign_in("")).status_code == 401

"""The inbox: what an approver sees of a question, and what an answer does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest

from agent_gate import tool
from agent_gate.doors.bounds import DoorBounds
from agent_gate.model.approval import Approver
from agent_gate.model.bounds import CONSOLE_QUESTIONS_SHOWN_MAX
from agent_gate.model.call import CallRequest
from agent_gate.model.outcome import Status
from agent_gate.sandbox.choice import Choice
from tests.gates import ASK_ALL, HandClock, counter, entries, outcome_of, projects, reader, rows, sender, soon
from tests.scenarios.visiting import Page, a_visitor, another, asked
from tests.servers import ANNA_TOKEN, BOB_TOKEN, CAROL_TOKEN, a_server

QUORUM = {**ASK_ALL, "approvals": [{"min_cost": 1, "approver_role": "admin", "approvers_required": 2}]}


def payment(acts: list[float], **declared: Any) -> Any:
    @tool("pay.invoice", effect="write", risk="medium", cost=1, sensitive=["amount"], **declared)
    async def pay(invoice: str, amount: float, note: str = "") -> dict[str, float]:
        acts.append(amount)
        return {"paid": amount}

    return pay


async def test_a_question_shows_the_whole_call_and_the_sensitive_argument_first(tmp_path: Path) -> None:
    async with a_visitor(tmp_path, ASK_ALL, payment([])) as visitor:
        note = "a" * 5_000 + " the end"
        question = await asked(visitor.context, "pay.invoice", {"invoice": "1183", "note": note, "amount": 12.5})
        page = await visitor.see()
    for shown in ("bot wants to call pay.invoice", "owned by carol", "default", "1183", "12.5", note, question.call_id):
        assert shown in page.text
    assert question.signatures[0] in page.text
    assert question.bound_hash in page.text
    assert "5,008 characters" in page.text
    names = [text for text in page.source.split("<dt>")[1:] if text.startswith(("amount", "invoice", "note"))]
    assert [name.split()[0] for name in names] == ["amount", "invoice", "note"]
    assert ("nonce", question.nonce) in page.form("/answer").fields.items()


async def test_allowing_performs_the_call_and_the_next_question_is_in_view(tmp_path: Path) -> None:
    acts: list[str] = []
    async with a_visitor(tmp_path, ASK_ALL, sender(acts)) as visitor:
        first = await asked(visitor.context, "mail.send", {"text": "one"})
        second = await asked(visitor.context, "mail.send", {"text": "two"})
        page = await visitor.do(await visitor.see(), f"{first.call_id}/answer", verb="allow", note="as agreed")
        assert (await outcome_of(visitor.context.gate, first)).ok
        assert acts == ["one"]
        assert "Allowed: mail.send of bot." in page.text
        assert page.form("/answer").action == f"/console/questions/{second.call_id}/answer"
        [answered] = entries(visitor.context.gate, "answered")
    assert (answered["body"]["resolved_by"], answered["body"]["note"]) == ("anna", "as agreed")


async def test_denying_denies(tmp_path: Path) -> None:
    acts: list[str] = []
    async with a_visitor(tmp_path, ASK_ALL, sender(acts)) as visitor:
        question = await asked(visitor.context, "mail.send", {"text": "one"})
        page = await visitor.do(await visitor.see(), "/answer", verb="deny")
        outcome = await outcome_of(visitor.context.gate, question)
    assert (outcome.status, acts) == (Status.DENIED, [])
    assert "Denied: mail.send of bot." in page.text
    assert "Nothing waits for you" in page.text


async def test_a_grant_has_the_bounds_that_were_chosen(tmp_path: Path) -> None:
    acts: list[str] = []
    async with a_visitor(tmp_path, ASK_ALL, sender(acts)) as visitor:
        question = await asked(visitor.context, "mail.send", {"text": "one"})
        page = await visitor.do(await visitor.see(), "/answer", verb="grant", seconds="900", uses="2")
        await outcome_of(visitor.context.gate, question)
        assert "Allowed for 15 minutes, at most 2 times: mail.send of bot." in page.text
        [grant] = await visitor.context.approvals.grants()
        assert (grant.uses, grant.expires_at - grant.created_at, grant.given_by) == (2, 900, "anna")
        grants = await visitor.see("/console/grants")
        assert "mail.send(one)" in grants.text
        assert "2 of 2" in grants.text
        page = await visitor.do(grants, "/revoke")
        assert "Revoked: mail.send of bot is asked about again." in page.text
        assert await visitor.context.approvals.grants() == []


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"verb": "grant", "seconds": "99999999"}, "out of bounds"),
        ({"verb": "grant", "uses": "0"}, "out of bounds"),
        ({"verb": "grant", "uses": "many"}, "numbers"),
        ({"verb": "perhaps"}, "say allow, deny or grant"),
        ({"verb": "allow", "note": "x" * 1_001}, "a note has at most"),
        ({"verb": "allow", "nonce": "0" * 32}, "no question about call"),
        ({"verb": "allow", "nonce": ""}, "no question about call"),
    ],
)
async def test_an_answer_that_is_none_changes_nothing_and_says_why(
    tmp_path: Path, fields: dict[str, str], why: str
) -> None:
    acts: list[str] = []
    async with a_visitor(tmp_path, ASK_ALL, sender(acts)) as visitor:
        question = await asked(visitor.context, "mail.send", {"text": "one"})
        page = await visitor.do(await visitor.see(), "/answer", **fields)
        assert why in page.text
        assert page.form("/answer").fields["nonce"] == question.nonce
        assert await visitor.context.approvals.question(question.call_id)
        assert acts == []


async def test_an_answer_counts_for_what_was_shown_and_not_for_what_came_after(tmp_path: Path) -> None:
    """The policy that comes into force asks for more, so the question is put again."""
    acts: list[float] = []
    async with a_visitor(tmp_path, ASK_ALL, payment(acts)) as visitor:
        question = await asked(visitor.context, "pay.invoice", {"invoice": "1", "amount": 1})
        shown = await visitor.see()
        async with another(visitor.context, visitor.app, CAROL_TOKEN) as carol:
            assert "may not approve a call of its own" in (await carol.see()).text
        page = await visitor.do(shown, "/answer", verb="allow")
        assert "Allowed" in page.text
        await outcome_of(visitor.context.gate, question)
        again = await visitor.do(shown, "/answer", verb="deny")
        assert "no question about call" in again.text
    assert acts == [1]


async def test_what_somebody_may_not_answer_is_shown_with_the_reason_and_refused(tmp_path: Path) -> None:
    policy = {**ASK_ALL, "approvals": [{"min_cost": 1, "approver_role": "admin"}]}
    async with a_visitor(tmp_path, policy, payment([]), token=BOB_TOKEN) as visitor:
        question = await asked(visitor.context, "pay.invoice", {"invoice": "1", "amount": 1})
        page = await visitor.see()
        assert "You cannot answer this: only an approver with role admin may; `bob` is operator" in page.text
        assert "not yours" in page.text
        assert not page.has_form("/answer")
        forged = {"csrf": page.form("/sign-out").fields["csrf"], "nonce": question.nonce, "verb": "allow"}
        answer = await visitor.client.post(f"/console/questions/{question.call_id}/answer", data=forged)
        assert "only an approver with role admin may" in (await visitor.see(answer.headers["location"])).text
        assert await visitor.context.approvals.question(question.call_id)
        refused = [entry["body"]["refused_answer"] for entry in entries(visitor.context.gate, "door")]
        assert [(answer["by"], answer["call_id"]) for answer in refused] == [("bob", question.call_id)]


async def test_where_two_must_agree_the_page_says_who_has(tmp_path: Path) -> None:
    acts: list[float] = []
    async with a_visitor(tmp_path, QUORUM, payment(acts)) as visitor:
        question = await asked(visitor.context, "pay.invoice", {"invoice": "1", "amount": 1}, agent="clerk")
        page = await visitor.see()
        assert "0 of 2 people agreed" in page.text
        assert "Allow repeatedly" not in page.text
        page = await visitor.do(page, "/answer", verb="allow")
        assert "You agreed to pay.invoice of clerk; 1 more person must." in page.text
        assert "1 of 2 people agreed: anna" in page.text
        assert "you have agreed already" in page.text
        assert acts == []
        async with another(visitor.context, visitor.app, CAROL_TOKEN) as carol:
            await carol.do(await carol.see(), "/answer", verb="allow")
        await outcome_of(visitor.context.gate, question)
    assert acts == [1]


async def test_a_question_that_has_ended_says_how(tmp_path: Path) -> None:
    clock = HandClock()
    async with a_visitor(tmp_path, ASK_ALL, sender([]), clock=clock, approval_timeout_s=60) as visitor:
        question = await asked(visitor.context, "mail.send", {"text": "one"})
        shown = await visitor.see()
        clock.advance(61)
        outcome = await outcome_of(visitor.context.gate, question)
        assert outcome.status is Status.EXPIRED
        page = await visitor.see(f"/console?call={question.call_id}")
        assert "This question is not open any more" in page.text
        assert "Nothing waits" in (await visitor.see()).text
        late = await visitor.do(shown, "/answer", verb="allow")
        assert "not open any more" in late.text


async def test_a_state_change_is_shown_before_it_happens(tmp_path: Path) -> None:
    async with a_visitor(tmp_path, ASK_ALL, counter()) as visitor:
        await projects(visitor.context.gate).create("home", {"n": 41, "name": "x"})
        agent = visitor.context.identities.agents["bot"]
        visitor.context.identities.agents["bot"] = type(agent)("bot", projects=("home",))
        question = await asked(visitor.context, "counter.add", {"n": 1}, project="home")
        before = rows(visitor.context.gate, "SELECT * FROM entries")
        page = await visitor.see()
        assert rows(visitor.context.gate, "SELECT * FROM entries") == before
        assert "1 change to the state; nothing outside the gate is touched." in page.text
        assert "before: 41" in page.text
        assert "after: 42" in page.text
        await visitor.do(page, "/answer", verb="allow")
        await outcome_of(visitor.context.gate, question)
        assert (await visitor.context.gate.ledger.state("home")).document == {"n": 42, "name": "x"}


async def test_a_file_s_change_is_shown_before_it_happens(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "notes.md").write_text("milk\nbread\n")
    policy = {**ASK_ALL, "tools": {"fs.write": {"allow_paths": ["./**"]}}}
    async with a_visitor(tmp_path, policy, working_dir=work) as visitor:
        await asked(visitor.context, "fs.write", {"path": "notes.md", "content": "milk\n<b>butter</b>\n"})
        page = await visitor.see()
    assert "1 file would change." in page.text
    assert "-bread" in page.text
    assert "+<b>butter</b>" in page.text
    assert (work / "notes.md").read_text() == "milk\nbread\n"


async def test_a_command_is_tried_on_a_copy_only_when_the_approver_wants_it(tmp_path: Path) -> None:
    picked = await Choice().pick("auto")
    if picked is None or not picked.layers:
        pytest.skip("no sandbox of this machine can throw away what a command writes")
    work = tmp_path / "work"
    (work / "out").mkdir(parents=True)
    guard = {"allow_executables": ["sh"], "unchecked_executables": ["sh"], "timeout_seconds": 20}
    policy = {**ASK_ALL, "tools": {"shell.run": guard, "fs.write": {"allow_paths": ["./out/**"]}}}
    async with a_visitor(tmp_path, policy, working_dir=work) as visitor:
        await asked(visitor.context, "shell.run", {"argv": ["sh", "-c", "echo new > out/made; echo done"]})
        page = await visitor.see()
        assert "Not tried yet" in page.text
        tried = await visitor.do(page, "/try")
    assert "1 file would change." in tried.text
    assert "+new" in tried.text
    assert "done" in tried.text
    assert list((work / "out").iterdir()) == []


async def test_where_nothing_can_be_foreseen_the_page_says_so(tmp_path: Path) -> None:
    @tool("vault.open", effect="write", secret=["pin"])
    async def open_vault(pin: str, door: str = "") -> None: ...

    async with a_visitor(tmp_path, ASK_ALL, sender([]), open_vault) as visitor:
        await asked(visitor.context, "mail.send", {"text": "x"})
        assert "This tool has no preview" in (await visitor.see()).text
        secret = await asked(visitor.context, "vault.open", {"pin": "4711-secret", "door": "cellar"})
        page = await visitor.see(f"/console?call={secret.call_id}")
    assert "Secret arguments are not kept" in page.text
    assert "secret: never shown or stored" in page.text
    assert "4711-secret" not in page.source


async def test_what_would_fail_now_is_said_before_somebody_agrees(tmp_path: Path) -> None:
    async with a_visitor(tmp_path, ASK_ALL, counter()) as visitor:
        await asked(visitor.context, "state.delete", {"path": "/nothing"})
        assert "An approval would end as error now: the state has nothing at `/nothing`." in (await visitor.see()).text
        await visitor.context.approvals.pause(Approver("anna", ("admin",)))
        page = await visitor.see()
    assert "An approval would end as denied now: the gate is paused." in page.text
    assert "The gate is paused: every call is denied." in page.text


async def test_a_tool_that_is_not_offered_any_more_is_told(tmp_path: Path) -> None:
    async with a_visitor(tmp_path, ASK_ALL, sender([])) as visitor:
        await asked(visitor.context, "mail.send", {"text": "x"})
    async with a_visitor(tmp_path, ASK_ALL) as visitor:
        assert "This tool is not offered here any more" in (await visitor.see()).text


async def test_a_read_is_told_as_such(tmp_path: Path) -> None:
    async with a_visitor(tmp_path, ASK_ALL, reader([])) as visitor:
        await asked(visitor.context, "note.read", {"text": "x"})
        page = await visitor.see()
    assert "It reads, and changes nothing." in page.text
    assert "low risk" in page.text


async def test_a_trial_that_takes_too_long_is_broken_off(tmp_path: Path) -> None:
    picked = await Choice().pick("auto")
    if picked is None or not picked.layers:
        pytest.skip("no sandbox of this machine can throw away what a command writes")
    guard = {"allow_executables": ["sh"], "unchecked_executables": ["sh"], "timeout_seconds": 60}
    policy, bounds = {**ASK_ALL, "tools": {"shell.run": guard}}, DoorBounds(console_preview_s=0.2)
    async with a_visitor(tmp_path, policy, working_dir=tmp_path, bounds=bounds) as visitor:
        await asked(visitor.context, "shell.run", {"argv": ["sh", "-c", "sleep 50"]})
        page = await visitor.do(await visitor.see(), "/try")
    assert "was broken off" in page.text


async def test_of_many_questions_the_first_are_listed_and_the_rest_counted(tmp_path: Path) -> None:
    async with a_visitor(tmp_path, ASK_ALL, sender([])) as visitor:
        for number in range(CONSOLE_QUESTIONS_SHOWN_MAX + 1):
            await asked(visitor.context, "mail.send", {"text": f"number {number}"})
        last = await asked(visitor.context, "mail.send", {"text": "number 101"})
        page = await visitor.see()
        assert f"{CONSOLE_QUESTIONS_SHOWN_MAX + 2} open" in page.text
        assert "2 more wait behind these." in page.text
        assert "number 101" not in page.text
        assert "number 101" in (await visitor.see(f"/console?call={last.call_id}")).text


async def test_a_list_of_large_calls_is_not_large(tmp_path: Path) -> None:
    async with a_visitor(tmp_path, ASK_ALL, sender([])) as visitor:
        for number in range(5):
            await asked(visitor.context, "mail.send", {"text": f"{number}" + "x" * 500_000})
        page = await visitor.see()
    assert 60_000 < len(page.source) < 100_000, "of the one in view, so much as a page takes"
    assert f"4{'x' * 189}…" in page.text


async def test_the_rest_of_a_large_call_is_a_page_further(tmp_path: Path) -> None:
    async with a_visitor(tmp_path, ASK_ALL, sender([])) as visitor:
        question = await asked(visitor.context, "mail.send", {"text": "x" * 70_000 + "the end"})
        page = await visitor.see()
        assert "the end" not in page.text
        assert "… 40,007 more characters" in page.text
        place = f"/console/calls/{question.call_id}?of=args&name=text"
        for start, told in ((30_000, "30,000 to 60,000"), (60_000, "60,000 to 70,007")):
            page = await visitor.see(f"{place}&from={start}")
            assert f"Characters {told} of 70,007." in page.text
        assert "the end" in page.text
        assert "Answer it" in page.text
        for wrong in ("of=args&name=none", "of=nothing", "of=result", "of=signatures&name=9"):
            answer = await visitor.client.get(f"/console/calls/{question.call_id}?{wrong}")
            assert (answer.status_code, "no such part" in answer.text) == (400, True)


async def test_four_questions_of_invisible_text_make_a_small_inbox(tmp_path: Path) -> None:
    async with a_visitor(tmp_path, ASK_ALL, sender([])) as visitor:
        for text in ("\u200b\u200c" * 150_000, "a\u0336" * 150_000, " x  y" * 150_000, "א1" * 150_000):
            question = await asked(visitor.context, "mail.send", {"text": text})
            page = await visitor.see(f"/console?call={question.call_id}")
            assert len(page.source) < 1_000_000


HOSTILE = "</pre><script>alert(1)</script><img src=x onerror=alert(1)>\"'`{{7*7}}${x}\u202e\u200b\x1b[31m"


def is_clean(page: Page) -> bool:
    """Whether nothing of the hostile text became an element or an attribute, and nothing of it is invisible."""
    tags = [tag for tag, _ in page.elements]
    names = {name for _, attributes in page.elements for name in attributes}
    return (
        tags.count("script") == 1
        and all(
            attributes.get("src", "/console/static/").startswith("/console/static/") for _, attributes in page.elements
        )
        and not any(name.startswith("on") for name in names)
        and not any(character in page.source for character in "\u202e\u200b\x1b")
    )


async def test_hostile_text_of_an_agent_is_text_on_every_page(tmp_path: Path) -> None:
    @tool("evil.echo", effect="write", sensitive=["text"])
    async def echo(text: str, more: dict[str, Any] | None = None) -> Any:
        if more:
            raise RuntimeError(text)
        return {text: text}

    policy = {"rules": [{"pattern": "state.*", "action": "allow"}]}
    async with a_visitor(tmp_path, policy, echo) as visitor:
        submit = visitor.context.gate.submit
        bot = visitor.context.identities.agents["bot"]
        await submit(CallRequest(bot, "state.set", {"path": "/" + HOSTILE.replace("/", "~1"), "value": HOSTILE}))
        await submit(CallRequest(bot, "state.get", {"path": "/missing" + HOSTILE}))
        await submit(CallRequest(bot, "no.such" + HOSTILE[:40], {HOSTILE: HOSTILE}))
        paths = ["/console", "/console/timeline", "/console/state/default", "/console/grants", "/console/health"]
        for more in (None, {HOSTILE: [HOSTILE]}):
            args: dict[str, Any] = {"text": HOSTILE} | ({"more": more} if more else {})
            question = await asked(visitor.context, "evil.echo", args)
            page = await visitor.see(f"/console?call={question.call_id}")
            assert is_clean(page)
            assert "U+202E" in page.text
            assert is_clean(await visitor.do(page, "/answer", verb="grant", note=HOSTILE))
            await outcome_of(visitor.context.gate, question)
            paths.append(f"/console/calls/{question.call_id}")
        calls = {
            row["call_id"]
            for row in rows(visitor.context.gate, "SELECT call_id FROM entries WHERE call_id IS NOT NULL")
        }
        for path in [*paths, *(f"/console/calls/{call_id}" for call_id in calls)]:
            page = await visitor.see(path)
            assert is_clean(page), path
        found = Page((await visitor.client.get("/console/timeline", params={"text": HOSTILE, "tool": HOSTILE})).text)
        assert is_clean(found)
        check = await visitor.see("/console/check")
        for field in ("tool", "args", "agent", "project", "mode"):
            answer = await visitor.send(check, "/check", **{"tool": "evil.echo", "args": "{}", field: HOSTILE})
            assert is_clean(Page(answer.text)), field
        answer = await visitor.send(check, "/check", tool="evil.echo", args=json.dumps({"text": HOSTILE}))
        assert is_clean(Page(answer.text))
        hostile = quote(HOSTILE, safe="")
        for path in (
            f"/console/calls/{hostile}",
            f"/console/state/{hostile}",
            f"/console/runs/{hostile}",
            f"/console?call={hostile}",
        ):
            answer = await visitor.client.get(path)
            if answer.headers["content-type"].startswith("text/html"):
                assert is_clean(Page(answer.text)), path


async def test_hostile_ids_stay_within_the_address_that_they_are_part_of(tmp_path: Path) -> None:
    async with a_visitor(tmp_path, ASK_ALL, sender([])) as visitor:
        csrf = (await visitor.see()).form("/sign-out").fields["csrf"]
        for hostile in ("%0d%0aSet-Cookie:%20a=b", "..%2f..%2fevil", "https:%2f%2fevil.test", "x%3fy=1"):
            for path in (f"questions/{hostile}/answer", f"grants/{hostile}/revoke", f"calls/{hostile}/undo"):
                answer = await visitor.client.post(
                    f"/console/{path}", data={"csrf": csrf, "verb": "deny", "nonce": "x"}
                )
                assert answer.headers.get_list("set-cookie") == []
                assert answer.headers.get("location", "/console").startswith("/console")
                assert "\n" not in answer.headers.get("location", "")


async def test_news_comes_by_itself_and_ends_with_the_session_and_the_server(tmp_path: Path) -> None:
    clock = HandClock()
    async with (
        a_server(tmp_path, ASK_ALL, sender([]), clock=clock) as server,
        httpx2.AsyncClient(base_url=server.url) as client,
    ):
        await client.post("/console/sign-in", data={"token": ANNA_TOKEN})

        async def news(lines: Any) -> tuple[str, Any]:
            name = ""
            while True:
                line = await soon(anext(lines))
                if line.startswith("event: "):
                    name = line.removeprefix("event: ")
                elif line.startswith("data: ") and name:
                    return name, json.loads(line.removeprefix("data: "))

        async with client.stream("GET", "/console/events") as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            lines = answer.aiter_lines()
            name, first = await news(lines)
            assert (name, first["count"], first["paused"]) == ("inbox", 0, False)
            await asked(server.context, "mail.send", {"text": "<b>"})
            name, second = await news(lines)
            assert (name, second["count"]) == ("inbox", 1)
            assert set(second) == {"count", "digest", "paused"}
            clock.advance(10_000)
            while name == "inbox":
                name, _ = await news(lines)
            assert name == "signed-out"
        await client.post("/console/sign-in", data={"token": ANNA_TOKEN})
        async with client.stream("GET", "/console/events") as answer:
            lines = answer.aiter_lines()
            await news(lines)
            server.context.closing.set()
            name = "inbox"
            while name == "inbox":
                name, _ = await news(lines)
            assert name == "closing"


async def test_too_many_streams_are_refused(tmp_path: Path) -> None:
    async with a_visitor(tmp_path, ASK_ALL, bounds=DoorBounds(console_streams_max=0)) as visitor:
        answer = await visitor.client.get("/console/events")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "30")

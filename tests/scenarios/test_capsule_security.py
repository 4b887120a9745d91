"""The Capsule document's security model: each row of its threat model, of its defence layers and of its flow."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from agent_gate import Outcome, load_plan, run_plan, tool, verify_run
from agent_gate.model.outcome import Status
from agent_gate.model.tool import Json
from agent_gate.sandbox.choice import Choice
from tests.gates import ALLOW_ALL, a_gate, code_of, entries, kinds_of, rows, sender
from tests.web import PUBLIC, Web, a_gate_to

SECURITY = Path(__file__).parents[2] / "docs" / "security.md"
CANARY = "CANARY"
POLICY: dict[str, Any] = {
    "boundary": "deny_by_default",
    "tools": {
        "fs.read": {"allow_paths": ["./**"], "deny_paths": ["**/*.pem"], "max_size_bytes": 100},
        "fs.write": {"allow_paths": ["./out/**"], "max_size_bytes": 100_000},
        "http.get": {"allow_domains": ["*"], "max_response_bytes": 100},
        "shell.run": {
            "allow_executables": ["echo", "ls", "sleep", "yes"],
            "deny_tokens": ["rm -rf", "sudo", "|", "`"],
            "timeout_seconds": 20,
            "max_output_bytes": 1000,
        },
    },
}
MEMORY: dict[str, Any] = {"boundary": "deny_by_default", "rules": [{"pattern": "note.*", "action": "allow"}]}

in_a_sandbox = pytest.mark.skipif(asyncio.run(Choice().pick("auto")) is None, reason="this machine offers no sandbox")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    root = tmp_path.resolve()
    (root / "work/out").mkdir(parents=True)
    (root / "secret.txt").write_text(CANARY)
    (root / "work/a.txt").write_text("hello")
    (root / "work/key.pem").write_text(CANARY)
    (root / "work/link.txt").symlink_to(root / "secret.txt")
    (root / "work/out/link.txt").symlink_to(root / "secret.txt")
    (root / "work/near.txt").symlink_to("a.txt")
    return root / "work"


def texts_in(work: Path) -> list[str]:
    return sorted(path.name for path in work.glob("*.txt"))


async def called(work: Path, tool_name: str, **args: Json) -> Outcome:
    async with a_gate(work, POLICY, working_dir=work) as gate:
        return await gate.call(tool_name, args)


async def fetched(web: Web, work: Path, url: str) -> Outcome:
    async with a_gate_to(web, POLICY, work / "web.db") as gate:
        return await gate.call("http.get", url=url)


@pytest.mark.parametrize(
    "path",
    ["../secret.txt", "out/../../secret.txt", "link.txt", "{root}/secret.txt", "/proc/self/cwd/../secret.txt"],
)
async def test_protects_against_unintended_file_access_path_traversal_symlinks(work: Path, path: str) -> None:
    spelt = path.replace("{root}", str(work.parent))
    read = await called(work, "fs.read", path=spelt)
    wrote = await called(work, "fs.write", path=spelt.replace("link.txt", "out/link.txt"), content="x")
    assert (read.status, wrote.status) == (Status.DENIED, Status.DENIED)
    assert (work.parent / "secret.txt").read_text() == CANARY
    assert CANARY not in str(read.to_json())


@pytest.mark.parametrize("host", ["127.0.0.1", "10.0.0.5", "169.254.169.254", "[::1]", "0x7f000001", "inside.test"])
async def test_protects_against_network_access_to_internal_resources_private_ips(work: Path, host: str) -> None:
    web = Web()
    web.names = {"inside.test": [["10.0.0.5"]]}
    outcome = await fetched(web, work, f"https://{host}/")
    assert (outcome.status, web.dialled) == (Status.DENIED, [])
    assert code_of(outcome) in (1003, 1019)


@in_a_sandbox
@pytest.mark.parametrize(
    "text", ["a; cat ../secret.txt", "$(cat ../secret.txt)", "a && rm a.txt", "${HOME}", "> b.txt"]
)
async def test_protects_against_shell_command_injection(work: Path, text: str) -> None:
    words = await called(work, "shell.run", argv=["echo", text])
    assert words.ok, words.error
    assert words.data == {"return_code": 0, "stdout": f"{text}\n", "stderr": ""}
    assert texts_in(work) == ["a.txt", "link.txt", "near.txt"]


@in_a_sandbox
@pytest.mark.parametrize(
    ("tool_name", "args", "code"),
    [
        ("fs.read", {"path": "large.txt"}, 1006),
        ("fs.write", {"path": "out/b.txt", "content": "x" * 100_001}, 1006),
        ("shell.run", {"argv": ["sleep", "60"], "timeout": 0.5}, 2004),
        ("shell.run", {"argv": ["yes"]}, 2005),
    ],
    ids=["size of a read", "size of a write", "time", "output"],
)
async def test_protects_against_resource_exhaustion_timeouts_size_limits(
    work: Path, tool_name: str, args: dict[str, Json], code: int
) -> None:
    (work / "large.txt").write_text("x" * 101)
    outcome = await called(work, tool_name, **args)
    assert (code_of(outcome), outcome.data) == (code, None), outcome.error


async def test_protects_against_resource_exhaustion_of_an_answer_without_end(work: Path) -> None:
    web = Web()
    web.names, web.pages = {"a.test": [[PUBLIC]]}, {"https://a.test/": {"body": "x" * 101}}
    outcome = await fetched(web, work, "https://a.test/")
    assert (code_of(outcome), outcome.data) == (2005, None)


def unprotected() -> list[str]:
    """What the page on security says, in bold, that the gate does not protect against."""
    section = SECURITY.read_text().split("## Not protected against")[1].split("\n## ")[0]
    return re.findall(r"^- \*\*(.+?)\*\*", section, re.MULTILINE)


async def test_does_not_protect_against_malicious_code_in_the_same_process(work: Path) -> None:
    @tool("note.look", effect="read", risk="low")
    def look() -> str:
        return (work.parent / "secret.txt").read_text()

    async with a_gate(work, {**POLICY, **MEMORY}, look, working_dir=work) as gate:
        assert (await gate.call("note.look")).data == CANARY
    assert "Code in the gate's own process." in unprotected()


def test_does_not_protect_against_kernel_level_attacks() -> None:
    assert "The kernel." in unprotected()


def test_does_not_protect_against_side_channel_attacks() -> None:
    assert "Side channels" in unprotected()


async def test_layer_1_policy_evaluation_first_line_of_defense(tmp_path: Path) -> None:
    acts: list[str] = []
    async with a_gate(tmp_path, MEMORY, sender(acts)) as gate:
        outcome = await gate.call("mail.send", text="x")
        assert (outcome.status, code_of(outcome), acts) == (Status.DENIED, 1001, [])
        assert kinds_of(gate, outcome.call_id) == ["settled"]


async def test_layer_2_path_normalization_resolve_symlinks_block_dots(work: Path) -> None:
    for path in ("near.txt", "./out/../near.txt", "a.txt"):
        outcome = await called(work, "fs.read", path=path)
        assert (outcome.signatures, outcome.ok) == ((f"fs.read({work}/a.txt)",), True)
    for path, real in (("link.txt", "secret.txt"), ("../secret.txt", "secret.txt")):
        outcome = await called(work, "fs.read", path=path)
        assert (outcome.signatures, code_of(outcome)) == ((f"fs.read({work.parent}/{real})",), 1002)


async def test_layer_3_domain_resolution_check_ips_before_connecting(work: Path) -> None:
    web = Web()
    web.names = {"a.test": [[PUBLIC, "192.168.1.1"]], "b.test": [[PUBLIC], ["127.0.0.1"]]}
    web.pages = {"https://b.test/": {"body": "hi"}}
    mixed = await fetched(web, work, "https://a.test/")
    assert (code_of(mixed), web.looked_up, web.dialled) == (1019, ["a.test"], [])
    rebinding = await fetched(web, work, "https://b.test/")
    assert (rebinding.ok, web.looked_up, web.dialled) == (True, ["a.test", "b.test"], [PUBLIC])


@pytest.mark.parametrize("argv", [["echo", "rm", "-rf", "x"], ["echo", "sudo"], ["echo", "a|b"], ["echo", "`id`"]])
async def test_layer_4_token_scanning_block_dangerous_shell_patterns(work: Path, argv: list[str]) -> None:
    outcome = await called(work, "shell.run", argv=argv)
    assert (outcome.status, code_of(outcome)) == (Status.DENIED, 1005)


async def test_layer_4_token_scanning_leaves_words_alone_that_only_contain_a_token(work: Path) -> None:
    async with a_gate(work, POLICY, working_dir=work) as gate:
        outcome = await gate.call("shell.run", argv=["ls", "pseudosudo"])
    assert code_of(outcome) != 1005


async def test_layer_5_audit_logging_full_traceability(work: Path) -> None:
    plan = load_plan(
        {
            "version": "1.0",
            "name": "p",
            "steps": [{"tool": "fs.read", "args": {"path": path}} for path in ("a.txt", "missing.txt", "key.pem")],
        }
    )
    async with a_gate(work, POLICY, working_dir=work) as gate:
        result = await run_plan(gate, plan, fail_fast=False)
        alone = await gate.call("fs.write", path="out/b.txt", content="x")
        audited = rows(gate, "SELECT request_id, tool_name, decision, agent_id FROM audit_log ORDER BY id")
        reasons = [row["body"]["reasons"] for row in entries(gate, "settled") if "reasons" in row["body"]]
        verified = await verify_run(gate, result.run_id)
    calls = [outcome.call_id for outcome in result.outcomes] + [alone.call_id]
    assert [row["request_id"] for row in audited] == calls
    assert [row["decision"] for row in audited] == ["allow", "allow", "deny", "allow"]
    assert {row["agent_id"] for row in audited} == {"local"}
    assert all(reasons)
    assert verified.ok


async def flow(work: Path, policy: Any, *tools: Any) -> Outcome:
    """The last of two equal steps."""
    step = {"tool": "fs.read", "args": {"path": "a.txt"}}
    plan = load_plan({"version": "1.0", "name": "p", "steps": [step, step]})
    async with a_gate(work, policy, *tools, working_dir=work) as gate:
        return (await run_plan(gate, plan, fail_fast=False)).outcomes[-1]


READING = {"allow_paths": ["./*.txt"]}


@pytest.mark.parametrize(
    ("policy", "code", "words"),
    [
        (ALLOW_ALL, 1001, "`fs.read` has no section under tools:"),
        ({"tools": {"fs.read": {"allow_paths": ["./out/**"]}}}, 1002, "is outside allow_paths of fs.read"),
        ({"tools": {"fs.read": {**READING, "deny_paths": ["**/a.*"]}}}, 1002, "deny_paths"),
        ({"tools": {"fs.read": READING}, "max_calls_per_tool": 1}, 1007, "max_calls_per_tool"),
        ({"tools": {"fs.read": READING}, "max_calls_per_tool": 2}, None, ""),
    ],
    ids=[
        "tool in policy? no: deny",
        "check allowlist, fail: deny with reason",
        "check denylist, fail: deny with reason",
        "check quota, exceed: deny",
        "within: allow",
    ],
)
async def test_the_policy_evaluation_flow(work: Path, policy: Any, code: int | None, words: str) -> None:
    outcome = await flow(work, policy)
    assert (outcome.status, code_of(outcome)) == (Status.DENIED if code else Status.SUCCESS, code)
    assert words in str(outcome.error)

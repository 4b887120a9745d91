"""`policy try`: judging the calls of a ledger again, against looking their signatures up in the rules alone."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from agent_gate import Agent, open_gate, tool
from agent_gate.config import load_policy
from agent_gate.history.policy_try import try_policy
from agent_gate.ledger.sqlite.reader import open_reader
from agent_gate.model.tool import ToolDeclaration
from agent_gate.policy.judge import Judge
from agent_gate.policy.rules import RuleIndex
from agent_gate.resolve.surroundings import look_around
from agent_gate.tools.catalogue import BUILTIN
from bench.figure import Figure, at_least, taking_turns_us

CALLS = 3_000
CALLERS = 64
RULES = 1_000
Wish = tuple[str, dict[str, str]]


class Home:
    """Stands for a home, whose calls are signed and judged as those of a real one."""

    def tools(self) -> Sequence[ToolDeclaration]:
        return [BUILTIN["ha_call_service"]]

    async def execute(self, tool_name: str, args: Mapping[str, Any]) -> str:
        return "done"


@tool("mail.search", effect="read", cost=0, risk="low")
async def search(query: str) -> list[str]:
    """Stands for a server's tool."""
    return [query]


def figures(directory: Path) -> Iterator[Figure]:
    root = directory.resolve() / "trial"
    wishes = _wishes(root)
    chance = random.Random(5)
    yield _figure("policy try, each call made four times", root, "alike", chance.sample(wishes, k=CALLS // 4) * 4)
    yield _figure("policy try, no two calls alike", root, "unlike", chance.sample(wishes, k=CALLS))


def _figure(name: str, root: Path, db: str, wishes: Sequence[Wish]) -> Figure:
    asyncio.run(_record(root, db, wishes))
    policy = load_policy(_policy(root))
    judge = Judge(policy, look_around(policy, str(root)))
    index = RuleIndex(policy.rules, policy.defaults)
    with closing(open_reader(root / db)) as reader:
        signatures = [
            row[0] for row in reader.connection.execute("SELECT signature FROM entries WHERE kind = 'settled'")
        ]
        assert len(signatures) == CALLS == try_policy(reader, judge).judged

        def look_up() -> None:
            for signature in signatures:
                index.lookup(signature)

        alone, whole = taking_turns_us(1, look_up, partial(try_policy, reader, judge))
    reference = f"the rule index alone, the same signatures, {RULES:,} rules"
    return at_least(name, CALLS / whole * 1e6, CALLS / alone * 1e6, reference, "1/s", 0.1)


def _policy(root: Path) -> dict[str, Any]:
    """Rules as people write them, most of them about something else than one call."""
    shapes = (
        "ha_call_service(light.turn_on, light.room_{n})",
        "ha_call_service(lock{n}.*)",
        f"fs.read({root}/project{{n}}/*)",
        "mail.search(*invoice {n}*)",
        "server{n}_*",
    )
    actions = ("allow", "ask", "allow", "deny", "allow")
    rules = [
        {"pattern": shapes[number % len(shapes)].format(n=number), "action": actions[number % len(actions)]}
        for number in range(RULES)
    ]
    rest = [{"pattern": name, "action": "allow"} for name in ("ha_call_service(light.*", "mail.search(*")]
    return {"rules": [*rules, *rest], "tools": {"fs.read": {"allow_paths": ["./**"], "deny_paths": ["**/.env"]}}}


def _wishes(root: Path) -> list[Wish]:
    """No two alike."""
    for number in range(20):
        folder = root / f"project{number * 5 + 2}"
        folder.mkdir(parents=True)
        for page in range(50):
            (folder / f"page{page}.md").write_text("x")
    files = sorted(root.rglob("*.md"))
    wishes: list[Wish] = []
    for number in range(CALLS // 3):
        entity = {"domain": "light", "service": "turn_on", "entity_id": f"light.room_{number}"}
        wishes.append(("ha_call_service", entity))
        wishes.append(("mail.search", {"query": f"letters of week {number}, from anna"}))
        wishes.append(("fs.read", {"path": str(files[number].relative_to(root))}))
    return wishes


async def _record(root: Path, db: str, wishes: Sequence[Wish]) -> None:
    turn = iter(wishes)
    async with open_gate(
        _policy(root), root / db, tools=(search,), agent=Agent("bench"), working_dir=root, services=(Home(),)
    ) as gate:

        async def caller() -> None:
            for name, args in turn:
                outcome = await gate.call(name, args)
                assert outcome.ok, outcome

        await asyncio.gather(*(caller() for _ in range(CALLERS)))

"""A run looked at again: replayed without doing anything, tried under another policy, and verified."""

import asyncio
import sys
from pathlib import Path

from agent_gate import load_plan, open_gate, replay_run, run_plan, verify_run

HERE = Path(__file__).parent
STRICTER = {"boundary": "deny_by_default", "rules": [{"pattern": "state.get*", "action": "allow"}]}


async def main(db: str) -> None:
    async with open_gate(policy=HERE / "policy.yaml", db=db) as gate:
        run = await run_plan(gate, load_plan(HERE / "plan.yaml"))

        replayed = await replay_run(gate, run.run_id, STRICTER)
        print("replayed", len(replayed.steps), "steps,", len(replayed.mismatches), "not as recorded")
        for change in replayed.changes:
            print("step", change.step_index, "->", change.what)

        verified = await verify_run(gate, run.run_id)
        print("verified" if verified.ok else "broken", verified.entries, "entries")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "agent-gate.db"))

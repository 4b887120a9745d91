"""The shortest use: open a gate, make a call, look at the outcome."""

import asyncio
import sys
from pathlib import Path

from agent_gate import open_gate

POLICY = Path(__file__).with_name("policy.yaml")


async def main(db: str) -> None:
    async with open_gate(policy=POLICY, db=db) as gate:
        outcome = await gate.call("state.set", path="lights.kitchen", value="on")
        print(outcome.status.value, "->", outcome.state_diff)

        refused = await gate.call("state.revert", snapshot_id="no-such-snapshot")
        print(refused.status.value, "->", refused.error)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "agent-gate.db"))

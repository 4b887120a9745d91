"""A plan: simulated first, then run, then one of its steps undone."""

import asyncio
import sys
from pathlib import Path

from agent_gate import load_plan, open_gate, run_plan

HERE = Path(__file__).parent


async def main(db: str) -> None:
    plan = load_plan(HERE / "plan.yaml")
    async with open_gate(policy=HERE / "policy.yaml", db=db) as gate:
        preview = await run_plan(gate, plan, simulate=True)
        print("would be:", [outcome.status.value for outcome in preview.outcomes])

        run = await run_plan(gate, plan)
        print("was:", run.status, [outcome.status.value for outcome in run.outcomes])

        again = await gate.call("state.revert", snapshot_id=run.outcomes[0].snapshot_id)
        print(again.status.value, again.message, again.state_diff)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "agent-gate.db"))

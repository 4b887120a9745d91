"""Own tools: a pure state change and an effect on the world, both under the same policy."""

import asyncio
import sys
from pathlib import Path
from typing import Any

from agent_gate import Approver, open_gate, tool, transition

POLICY = Path(__file__).with_name("policy.yaml")
OUTBOX: list[str] = []

NOTE = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


@transition("note.add", schema=NOTE)
def add_note(inputs: dict[str, Any], state: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Pure: it gets copies and returns the new state; the gate keeps every version."""
    notes = [*state.get("notes", []), inputs["text"]]
    return {**state, "notes": notes}, f"{len(notes)} notes"


@tool("mail.send", effect="write", risk="medium", cost=5, unsigned=["text"], secret=["password"])
async def send_mail(to: str, text: str, password: str) -> dict[str, str]:
    """Acts on the world: its intent is durable in the ledger before this runs. The password is never recorded."""
    OUTBOX.append(f"{to}: {text} (signed in with {len(password)} characters)")
    return {"sent_to": to}


async def main(db: str) -> None:
    anna = Approver("anna")
    async with open_gate(policy=POLICY, db=db, tools=[add_note, send_mail], approvers=[anna]) as gate:
        note = await gate.call("note.add", text="water the plants")
        print(note.status.value, note.message)

        stranger = await gate.call("mail.send", to="eve@evil.test", text="hello", password="hunter2")
        print(stranger.status.value, "->", stranger.error)

        waiting = await gate.call("mail.send", to="bo@example.com", text="hello", password="hunter2", wait=False)
        print(waiting.status.value, "until", waiting.to_json()["expires_at"][:10])
        await gate.answer(waiting.call_id, approve=True, by=anna)
        sent = await gate.result(waiting.call_id)
        assert sent is not None
        print(sent.status.value, sent.data, OUTBOX)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "agent-gate.db"))

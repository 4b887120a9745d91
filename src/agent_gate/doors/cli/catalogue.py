"""Every command with its module and its summary: help imports no command, and a start only the one that is asked for.

A test compares each summary with the first sentence of the command's own help.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Entry(NamedTuple):
    """Entry of one command."""

    module: str
    """Its file in this package, which may hold several commands."""
    summary: str


SECTIONS: Mapping[str, Mapping[str, Entry]] = {
    "Work": {
        "init": Entry("init", "Write a policy, a plan and a configuration to begin with, and create the database."),
        "run": Entry("fast_commands", "Run a plan: each step is judged, performed if it may be, and written down."),
        "replay": Entry("verify", "Replay a run without doing anything, and compare it with the record."),
        "report": Entry(
            "report", "Show what a run did: each step, what it touched, what was denied and how to allow it."
        ),
        "list-runs": Entry("fast_commands", "List the runs in the ledger, the newest first."),
        "show-run": Entry("show_run", "Show one run: its plan, its policy, and each call with its ids and hashes."),
        "revert": Entry("revert", "Undo what one call did: a call like any other, judged by the policy and recorded."),
        "demo": Entry("demo", "Play a short tour: allow, deny, ask, simulate, undo, verify."),
    },
    "Policy": {
        "check": Entry("fast_commands", "Would this call be allowed, and why?"),
        "policy": Entry("policy", "What a policy would have meant for the past."),
    },
    "Record": {
        "audit": Entry("audit", "List the calls in the ledger, the newest first, and when the clock was set."),
        "verify": Entry("verify", "Check that the ledger still is what was written."),
        "export": Entry("audit", "Print every entry of the ledger, with its body and its hashes."),
        "state": Entry("state", "A project's state, now and at every moment before."),
        "project": Entry("project", "Projects: each has its own state, chain, budget and lock."),
        "db": Entry("db", "Care for the ledger's file, and the two ways to erase."),
    },
    "Server": {
        "serve": Entry(
            "serve", "Serve agents over WebSocket and HTTP, and people in the browser, until a signal ends it."
        ),
        "request": Entry("request", "Make one call as an agent, and print its outcome."),
        "tools": Entry("request", "List the tools that the holder of a token could use."),
        "pending": Entry("approvals", "List the calls that wait for a person, the oldest first, or show one of them."),
        "approve": Entry("approvals", "Say yes to a call that waits; needs an approver's token."),
        "deny": Entry("approvals", "Say no to a call that waits; needs an approver's token."),
        "grants": Entry(
            "approvals", "List the standing grants that are in force, or take one back; needs an approver's token."
        ),
        "pause": Entry("approvals", "Deny every call at once until `agent-gate resume`; needs an approver's token."),
        "resume": Entry("approvals", "Let calls pass again after `agent-gate pause`; needs an approver's token."),
        "mcp": Entry("serve", "Offer the gate's tools to the MCP client that starts this command."),
        "policy-agent": Entry(
            "serve", "Run request policies for a proxy over gRPC on a Unix socket, until a signal ends it."
        ),
        "owner": Entry("owner", "What the gate's owner lets services use, such as an access token."),
        "doctor": Entry("doctor", "Look at this machine, the configuration and the ledger, and say what to do."),
    },
}

COMMANDS: Mapping[str, Entry] = {name: command for section in SECTIONS.values() for name, command in section.items()}

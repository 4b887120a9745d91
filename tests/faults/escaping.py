"""A program for tests: one sandbox meets every attempt of `escape.c` through a whole gate; prints what came of it.

Started as `python -m tests.faults.escaping SANDBOX PROBE`, by whichever user is to be held.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from agent_gate import load_policy
from agent_gate.gate.assembly import assemble
from agent_gate.gate.gate import Gate
from agent_gate.ledger.sqlite.ledger import SqliteLedger
from agent_gate.model.call import Agent
from agent_gate.model.secrecy import KeyedHashes
from agent_gate.resolve.workspace import Workspace
from agent_gate.sandbox.bubblewrap import NEEDED, Bubblewrap, candidates, options_of
from agent_gate.sandbox.choice import Choice, Sandbox
from agent_gate.sandbox.supervised import Sandlock
from agent_gate.services.registry import ToolRegistry
from agent_gate.services.shell import ShellService
from agent_gate.system.clock import RandomIds, SystemClock

SECRET = "CANARY-OUTSIDE"
FILE_BYTES_MAX = 1_048_576
GIB = 1_073_741_824


class Only(Choice):
    """One sandbox, whatever else the machine has."""

    def __init__(self, sandbox: Sandbox) -> None:
        super().__init__()
        self._best, self._tried = sandbox, True


def sandbox_named(name: str) -> Sandbox:
    if name == "sandlock":
        return Sandlock()
    return Bubblewrap(next(bwrap for bwrap in candidates() if options_of(bwrap) >= set(NEEDED)))


class Ground:
    """A small world: what may be used, what may not, and somebody outside to be reached."""

    def __init__(self, root: Path, probe: Path, stack: ExitStack) -> None:
        self.root, self.outside, self.out = root, root / "outside", root / "work" / "out"
        self.tools = root / "bin"
        for folder in (self.outside, self.out, self.tools):
            folder.mkdir(parents=True)
        self.tools.joinpath("escape").write_bytes(probe.read_bytes())
        self.tools.joinpath("escape").chmod(0o755)
        self.victim = self.outside / "victim.txt"
        self.victim.write_text(SECRET)
        (root / "work" / "a.txt").write_text("inside\n")
        self.sleeper = stack.enter_context(_sleeping()).pid
        self.unix = str(self.root / "work" / "socket")
        self.abstract = f"agent-gate-escape-{os.getpid()}"
        self.port = stack.enter_context(_listening(self.unix, self.abstract))

    @classmethod
    def sketch(cls) -> Mapping[str, Sequence[str]]:
        """What would be tried, without a ground to try it on."""
        sketch = cls.__new__(cls)
        sketch.root = sketch.outside = sketch.out = sketch.victim = Path("/")
        sketch.sleeper = sketch.port = 1
        sketch.unix = sketch.abstract = ""
        return {**sketch.controls(), **sketch.attempts()}

    def policy(self, writes: str) -> dict[str, Any]:
        command = {
            "allow_executables": ["escape"],
            "unchecked_executables": ["escape"],
            "trusted_dirs": [str(self.tools)],
            "timeout_seconds": 30,
            "writes": writes,
        }
        return {
            "version": 1,
            "tools": {
                "shell.run": command,
                "fs.read": {"allow_paths": [f"{self.root}/work/**"]},
                "fs.write": {"allow_paths": [f"{self.out}/**"], "max_size_bytes": FILE_BYTES_MAX},
            },
        }

    def controls(self) -> Mapping[str, Sequence[str]]:
        """What is not refused, so that the rest is known to have been tried."""
        return {
            "control: reading": ["read", f"{self.root}/work/a.txt"],
            "control: writing": ["create", f"{self.out}/new"],
            "control: a small file": ["large-file", f"{self.out}/small", "65536"],
            "control: some memory": ["memory", str(GIB // 8)],
        }

    def attempts(self) -> Mapping[str, Sequence[str]]:
        victim, out, sleeper = str(self.victim), str(self.out), str(self.sleeper)
        gate = os.getpid()
        return {
            "reading": ["read", victim],
            "reading by dots": ["read", f"../../../../../..{victim}"],
            "reading a password file": ["read", "/etc/shadow"],
            "reading the gate's key": ["read", f"{self.root}/gate.db"],
            "reading through a link": ["link-and-read", victim, f"{out}/link"],
            "reading through a process": ["read", f"/proc/{gate}/root{victim}"],
            "reading through its own first process": ["read", f"/proc/1/root{victim}"],
            "reading through its parent's directory": ["read", f"/proc/{gate}/cwd/tests/__init__.py"],
            "reading the environment of the gate": ["read", f"/proc/{gate}/environ"],
            "reading the memory of the gate": ["read", f"/proc/{gate}/mem"],
            "listing the gate's descriptors": ["read", f"/proc/{gate}/maps"],
            "writing": ["write", victim],
            "creating": ["create", f"{self.outside}/new"],
            "creating beside": ["create", f"{self.root}/work/new"],
            "changing what may only be read": ["write", f"{self.root}/work/a.txt"],
            "truncating": ["truncate", victim],
            "renaming in": ["rename", victim, f"{out}/stolen"],
            "renaming out": ["rename", f"{self.root}/work/a.txt", f"{self.outside}/a.txt"],
            "linking": ["link", victim, f"{out}/hard"],
            "removing": ["unlink", victim],
            "making a directory": ["mkdir", f"{self.outside}/folder"],
            "chmod": ["chmod", victim],
            "chmod of what may only be read": ["chmod", f"{self.root}/work/a.txt"],
            "chown": ["chown", victim],
            "touch": ["touch", victim],
            "extended attributes": ["xattr", victim],
            "making a device": ["mknod", f"{out}/device"],
            "opening memory": ["open-for-writing", "/dev/mem"],
            "opening the kernel's log": ["read", "/dev/kmsg"],
            "changing the kernel's settings": ["open-for-writing", "/proc/sys/kernel/printk"],
            "asking the kernel for tricks": ["open-for-writing", "/proc/sysrq-trigger"],
            "an internet socket": ["inet"],
            "an internet datagram socket": ["inet-datagram"],
            "an internet socket of version 6": ["inet6"],
            "a raw socket": ["raw"],
            "a netlink socket": ["netlink"],
            "a packet socket": ["packet"],
            "a socket to the hypervisor": ["vsock"],
            "a socket to the kernel's ciphers": ["alg"],
            "a local socket": ["unix", self.unix],
            "an abstract socket": ["abstract", self.abstract],
            "a server on this machine": ["tcp", str(self.port)],
            "killing a process outside": ["kill", sleeper],
            "killing a process outside by a handle": ["pidfd", sleeper],
            "tracing a process outside": ["ptrace", sleeper],
            "being traced": ["traceme"],
            "reading the memory of a process outside": ["memory-of", sleeper],
            "mounting": ["mount", out],
            "unmounting": ["umount", "/"],
            "chroot": ["chroot", out],
            "a user namespace": ["unshare-user"],
            "a mount namespace": ["unshare-mount"],
            "a network namespace": ["unshare-net"],
            "a process in a user namespace": ["clone-user"],
            "becoming root": ["setuid"],
            "renaming the machine": ["sethostname"],
            "io_uring": ["io_uring"],
            "bpf": ["bpf"],
            "perf events": ["perf"],
            "userfaultfd": ["userfaultfd"],
            "keys": ["keyctl"],
            "file handles": ["handle"],
            "descriptors that were left open": ["descriptors"],
            "capabilities": ["capabilities"],
            "the environment": ["environment", "ESCAPE_SECRET"],
            "too many processes": ["processes"],
            "too much memory": ["memory", str(2 * GIB)],
            "too much shared memory": ["shared-memory", str(2 * GIB)],
            "too large a file": ["large-file", f"{out}/large", str(8 * FILE_BYTES_MAX)],
        }


@contextmanager
def _sleeping() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


@contextmanager
def _listening(path: str, abstract: str) -> Iterator[int]:
    """Somebody at each kind of door; nobody may ever knock."""
    with socket.socket(socket.AF_UNIX) as named, socket.socket(socket.AF_UNIX) as unnamed, socket.socket() as tcp:
        named.bind(path)
        unnamed.bind(f"\0{abstract}")
        tcp.bind(("127.0.0.1", 0))
        for door in (named, unnamed, tcp):
            door.listen()
        yield tcp.getsockname()[1]


def gate_with(ground: Ground, sandbox: Sandbox) -> Gate:
    db = ground.root / "gate.db"
    policy = load_policy(ground.policy("judge" if sandbox.layers else "direct"))
    workspace = Workspace(str(ground.root / "work"), db, policy)
    clock, ids = SystemClock(), RandomIds()
    shell = ShellService(workspace.working_dir, workspace.resolver(), workspace.look, Only(sandbox))
    registry, ledger = ToolRegistry(shell.registered_tools()), SqliteLedger(db, clock, ids)
    return assemble(
        judge=workspace.judge(policy),
        tools=registry,
        ledger=ledger,
        clock=clock,
        ids=ids,
        secrets=KeyedHashes(ledger.storage.secret()),
        agent=Agent("probe"),
        notifier=None,
        can_ask=False,
        approval_timeout_s=1,
    )


async def attempt_all(ground: Ground, sandbox: Sandbox) -> dict[str, Any]:
    gate = gate_with(ground, sandbox)
    results: dict[str, Any] = {}
    try:
        for name, words in {**ground.controls(), **ground.attempts()}.items():
            outcome = await gate.call("shell.run", argv=["escape", *words])
            recorded = await gate.ledger.entries_of(outcome.call_id)
            results[name] = {**outcome.to_json(), "entries": [entry.kind for entry in recorded]}
        mark = ground.out / "survived"
        outcome = await gate.call("shell.run", argv=["escape", "survive", str(mark)], timeout=1)
        results["surviving the timeout"] = {**outcome.to_json(), "entries": ["performing", "settled"]}
        await asyncio.sleep(4.5)
        results["left behind"] = [path.name for path in (mark,) if path.exists()]
    finally:
        await gate.close()
    return results


def main(name: str, probe: str) -> None:
    os.environ["ESCAPE_SECRET"] = SECRET
    with tempfile.TemporaryDirectory(prefix="escape-") as folder, ExitStack() as stack:
        ground = Ground(Path(folder).resolve(), Path(probe), stack)
        before = _seen(ground)
        results = asyncio.run(attempt_all(ground, sandbox_named(name)))
        alive = Path(f"/proc/{ground.sleeper}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
        told = {"results": results, "unchanged": _seen(ground) == before, "sleeper_alive": alive}
    sys.stdout.write(json.dumps(told))


def _seen(ground: Ground) -> list[object]:
    """All that an attempt could have changed outside."""
    victim = ground.victim.stat()
    facts = victim.st_mode, victim.st_uid, victim.st_mtime_ns, victim.st_ctime_ns, victim.st_nlink
    inside = sorted(path.name for path in (ground.root / "work").iterdir())
    return [facts, ground.victim.read_text(), sorted(os.listdir(ground.outside)), inside]


def orphan(name: str, probe: str) -> None:
    """Runs a command that does not end, and waits to be killed."""
    with ExitStack() as stack:
        ground = Ground(Path(tempfile.mkdtemp(prefix="escape-")).resolve(), Path(probe), stack)
        mark = str(ground.out / "survived")
        sys.stdout.write(f"{mark}\n")
        sys.stdout.flush()
        gate = gate_with(ground, sandbox_named(name))
        asyncio.run(gate.call("shell.run", argv=["escape", "survive", mark]))


if __name__ == "__main__":
    orphan(*sys.argv[2:]) if sys.argv[1] == "orphan" else main(*sys.argv[1:])

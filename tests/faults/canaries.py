"""A gate with its real network, alone in a network namespace where every address but a friend's is a canary.

Run as `unshare --net --mount python -m tests.faults.canaries FOLDER`; prints what was reached as JSON.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from agent_gate import Gate, open_gate
from tests.attacks.cases import load_cases

FRIEND, FRIEND_6 = "93.184.215.14", "2606:2800::14"
CANARIES = ("127.0.0.1", "::1", "169.254.169.254", "10.0.0.1", "100.64.0.1", "fd00:ec2::254", "168.63.129.16")
HOSTS = {
    "friend.test": [FRIEND, FRIEND_6],
    "localhost": ["127.0.0.1", "::1"],
    "inside.test": ["10.0.0.1"],
    "metadata.test": ["169.254.169.254"],
    "six.test": ["::1"],
    "mapped.test": ["::ffff:127.0.0.1"],
    "both.test": [FRIEND, "127.0.0.1"],
    "turning.test": [FRIEND],
}
TURNED = HOSTS | {"turning.test": ["127.0.0.1"]}
OPEN: Mapping[str, Any] = {
    "allow_domains": ["*"],
    "allow_schemes": ["http", "https"],
    "allow_ports": [80],
    "timeout_seconds": 20,
}
TARGETS = [
    *(f"http://{f'[{address}]' if ':' in address else address}/" for address in CANARIES),
    *(f"http://{name}/" for name in HOSTS if name not in ("friend.test", "turning.test")),
    *(
        "http://127.1/",
        "http://2130706433/",
        "http://0x7f.0.0.1/",
        "http://0177.0.0.1/",
        "http://0/",
        "http://0.0.0.0/",
    ),
    *("http://[::]/", "http://[::ffff:127.0.0.1]/", "http://[::127.0.0.1]/", "http://[::ffff:169.254.169.254]/"),
    *("http://localhost./", "http://x.localhost/", "http://127.0.0.2/", "http://friend.test@127.0.0.1/"),
    *("http://127.0.0.1\\@friend.test/", "http://127.0.0.1#@friend.test/", "http://\u2460\u2461\u2466.0.0.1/"),
]


class Hits:
    """Who was reached, and by whom it was asked for."""

    def __init__(self) -> None:
        self.canary: list[str] = []
        self.friend: list[str] = []

    async def trap(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.canary.append(str(writer.get_extra_info("sockname")[0]))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\ncanary")
        await _close(writer)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """The friend sends everybody where the path says."""
        target = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1].decode()
        self.friend.append(target)
        to = unquote(target.removeprefix("/"))
        head = f"302 Found\r\nLocation: {to}" if to else "200 OK"
        writer.write(f"HTTP/1.1 {head}\r\nContent-Length: 0\r\n\r\n".encode())
        await _close(writer)


async def _close(writer: asyncio.StreamWriter) -> None:
    try:
        await writer.drain()
    except ConnectionError:
        return
    finally:
        writer.close()


async def main(folder: Path) -> None:
    hosts = folder / "hosts"
    _write(hosts, HOSTS)
    _arrange(hosts)
    hits = Hits()
    for address in (FRIEND, FRIEND_6):
        await asyncio.start_server(hits.answer, address, 80, reuse_port=True)
    for everything in ("0.0.0.0", "::"):
        await asyncio.start_server(hits.trap, everything, 80, reuse_port=True)
    told: dict[str, Any] = {}
    async with open_gate({"tools": {"http.get": OPEN}}, folder / "gate.db") as gate:
        told["friend"] = (await gate.call("http.get", url="http://friend.test/")).status.value
        told["let through"] = await _all(gate, TARGETS) + await _all(gate, _visible())
        redirects = [f"http://friend.test/{_escaped(target)}" for target in TARGETS]
        told["let through by redirect"] = await _all(gate, redirects)
        told["redirects met"] = len(hits.friend) - 1
        told["let through while turning"] = await _turning(gate, hosts, hits)
    told["canary"] = list(hits.canary)
    async with open_gate({"tools": {"http.get": {**OPEN, "deny_private_ips": False}}}, folder / "open.db") as gate:
        await _all(gate, [f"http://{address}/" for address in ("127.0.0.1", "[::1]", "169.254.169.254")])
    told["canary where it is allowed"] = hits.canary[len(told["canary"]) :]
    sys.stdout.write(json.dumps(told) + "\n")


async def _all(gate: Gate, urls: list[str]) -> list[str]:
    return [url for url in urls if (await gate.call("http.get", url=url)).ok]


async def _turning(gate: Gate, hosts: Path, hits: Hits) -> list[str]:
    """The name's address turns while it is used: between look-ups, and between a look-up and what follows it."""
    through = []
    for round_ in range(40):
        _write(hosts, TURNED if round_ % 2 else HOSTS)
        calls = [gate.call("http.get", url="http://turning.test/http:%2F%2Fturning.test%2F") for _ in range(5)]
        tasks = [asyncio.ensure_future(call) for call in calls]
        await asyncio.sleep(0)
        _write(hosts, HOSTS if round_ % 2 else TURNED)
        through += [str(hits.canary) for task in tasks if (await task).ok and hits.canary]
    return through


def _visible() -> list[str]:
    cases = load_cases(Path("tests/attacks/visible.jsonl"))
    found = [case.args["url"] for case in cases if case.family == "ssrf" and case.expect != "allow"]
    return [url for url in found if url.startswith("http://")]


def _escaped(target: str) -> str:
    return "".join(f"%{byte:02X}" for byte in target.encode())


def _write(hosts: Path, names: Mapping[str, list[str]]) -> None:
    lines = [f"{address} {name}\n" for name, addresses in names.items() for address in addresses]
    hosts.write_text("".join(lines))


def _arrange(hosts: Path) -> None:
    _do("mount", "--bind", str(hosts), "/etc/hosts")
    _do("ip", "link", "set", "lo", "up")
    for address in (*CANARIES, FRIEND, FRIEND_6):
        if address not in ("127.0.0.1", "::1"):
            _do("ip", "address", "add", f"{address}/{128 if ':' in address else 32}", "dev", "lo", *_at_once(address))


def _at_once(address: str) -> list[str]:
    """IPv6 would first ask whether anybody else has the address."""
    return ["nodad"] if ":" in address else []


def _do(*argv: str) -> None:
    subprocess.run(argv, check=True)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))

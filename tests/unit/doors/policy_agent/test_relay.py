"""Users other than the one that runs the agent: the kernel says who they are, before a byte passes."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from agent_gate.chain.context import RequestContext
from agent_gate.chain.policy import PolicyResult
from agent_gate.doors.policy_agent.relay import relaying
from tests.agents import Scripted, a_client, a_ref, a_request, an_agent
from tests.gates import soon
from tests.peers import connected_as, door_of

FRIEND, STRANGER = 1000, 1999
REQUEST = a_request(a_ref("set_headers", headers={"x": "y"}))

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that every user can reach into."""
    directory = Path(tempfile.mkdtemp(prefix="relay-"))
    directory.chmod(0o711)
    yield directory
    shutil.rmtree(directory)


@needs_root
async def test_users_of_allow_uids_are_served_and_others_are_not(place: Path, tmp_path: Path) -> None:
    async with an_agent(place / "agent" / "s", allow_uids=(FRIEND,)) as path:
        modes = [stat.S_IMODE(file.stat().st_mode) for file in (path.parent, path, Path(f"{path}.private"))]
        assert modes == [0o711, 0o666, 0o700]
        for uid, is_served in ((FRIEND, True), (os.geteuid(), True), (STRANGER, False)):
            async with door_of(uid, path, tmp_path / f"door-{uid}") as own, a_client(own) as client:
                if is_served:
                    assert (await soon(client.execute(REQUEST))).status.code == 1
                else:
                    with pytest.raises(grpc.aio.AioRpcError) as error:
                        await soon(client.execute(REQUEST))
                    assert error.value.code() is grpc.StatusCode.UNAVAILABLE


@needs_root
async def test_the_private_socket_behind_it_is_out_of_reach_for_both(place: Path) -> None:
    async with an_agent(place / "agent" / "s", allow_uids=(FRIEND,)) as path:
        for uid in (FRIEND, STRANGER):
            with pytest.raises(PermissionError):
                connected_as(uid, Path(f"{path}.private") / "s")


@needs_root
async def test_without_allow_uids_the_kernel_itself_lets_nobody_else_in(place: Path) -> None:
    async with an_agent(place / "s") as path:
        with pytest.raises(PermissionError):
            connected_as(STRANGER, path)


async def test_large_messages_pass_whole(tmp_path: Path) -> None:
    async with _relayed(tmp_path) as outer, a_client(outer) as client:
        request = a_request(a_ref("body_size", max_bytes=1_000_000), body=bytes(1_000_000))
        answers = await soon(asyncio.gather(*(client.execute(request) for _ in range(8))))
    assert [answer.status.code for answer in answers] == [1] * 8


async def test_connections_are_bounded(tmp_path: Path) -> None:
    async with _relayed(tmp_path, connections_max=1) as outer, a_client(outer) as first, a_client(outer) as second:
        assert (await soon(first.execute(REQUEST))).status.code == 1
        with pytest.raises(grpc.aio.AioRpcError):
            await soon(second.execute(REQUEST))


async def test_what_is_under_way_by_the_relay_is_answered_before_the_agent_ends(tmp_path: Path) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def hold(_: Mapping[str, Any], context: RequestContext) -> PolicyResult:
        begun.set()
        await go_on.wait()
        return PolicyResult()

    async with a_client(tmp_path / "agent" / "s") as client:
        async with an_agent(tmp_path / "agent" / "s", Scripted("hold", hold), allow_uids=(FRIEND,)):
            held = asyncio.ensure_future(client.execute(a_request("hold")))
            await soon(begun.wait())
            asyncio.get_running_loop().call_later(0.1, go_on.set)
        assert (await soon(held)).status.code == 1


async def test_who_is_not_allowed_is_cut_off_without_an_answer(tmp_path: Path) -> None:
    async with relaying(tmp_path / "outer", tmp_path / "nowhere", {os.geteuid() + 1}):
        reader, writer = await asyncio.open_unix_connection(tmp_path / "outer")
        writer.write(b"PRI * HTTP/2.0\r\n\r\n")
        with suppress(ConnectionResetError):
            assert await soon(reader.read()) == b""
        writer.close()


@asynccontextmanager
async def _relayed(directory: Path, **options: Any) -> AsyncIterator[Path]:
    outer = directory / "outer"
    async with an_agent(directory / "s") as inner, relaying(outer, inner, {os.geteuid()}, **options):
        yield outer

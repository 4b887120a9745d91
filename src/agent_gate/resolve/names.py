"""One look-up of a host's name, with every answer: what is judged is what may be dialled."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterable
from typing import Protocol

from agent_gate.model.bounds import ADDRESSES_MAX, LOOKUP_PLACE_WAIT_S, LOOKUP_TIMEOUT_S, LOOKUPS_MAX
from agent_gate.model.errors import ToolError
from agent_gate.policy.guards.addresses import parse_address
from agent_gate.system.sharing import Places


class Resolver(Protocol):
    async def resolve(self, host: str) -> Iterable[str]:
        """Every address of a host, as texts; OSError or ValueError where it has none."""
        ...


async def addresses_of(host: str, resolver: Resolver, timeout_s: float = LOOKUP_TIMEOUT_S) -> list[str]:
    """Every address that a name leads to, each in its one spelling, in the order in which they are dialled."""
    scope = asyncio.timeout(timeout_s)
    try:
        async with scope:
            answers = await resolver.resolve(host)
    except (OSError, ValueError) as error:
        if scope.expired():
            raise ToolError(
                f"`{host}` was not found within {timeout_s:g} s", code=2006, suggestion="try again later"
            ) from None
        raise ToolError(
            f"`{host}` was not found: {error}", code=2006, suggestion="look at the spelling of the host"
        ) from None
    return _judgeable(host, answers)


def _judgeable(host: str, answers: Iterable[str]) -> list[str]:
    found = set()
    for answer in answers:
        address = parse_address(answer)
        if address is None:
            raise ToolError(f"`{host}` was answered by {answer!a}, which is not an address")
        found.add(address)
        if len(found) > ADDRESSES_MAX:
            raise ToolError(f"`{host}` has more than {ADDRESSES_MAX} addresses")
    if not found:
        raise ToolError(f"`{host}` has no address", code=2006, suggestion="look at the spelling of the host")
    return [address.text for address in sorted(found)]


class SystemResolver:
    """The machine's own resolver: hosts file, search order and all.

    Each look-up has a thread that nobody waits for when the process ends; one that hangs keeps its place until it ends.
    """

    def __init__(self, lookups_max: int = LOOKUPS_MAX, wait_s: float = LOOKUP_PLACE_WAIT_S) -> None:
        self._places = Places(lookups_max, "look-ups hang", wait_s)

    async def resolve(self, host: str) -> list[str]:
        holder = await self._places.take()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[str]] = loop.create_future()
        thread = threading.Thread(target=self._look_up, args=(host, loop, answer, holder), name="look-up", daemon=True)
        try:
            thread.start()
        except BaseException:
            self._places.give_back(holder)
            raise
        return await answer

    def _look_up(
        self, host: str, loop: asyncio.AbstractEventLoop, answer: asyncio.Future[list[str]], holder: str
    ) -> None:
        result: list[str] | Exception
        try:
            # As bytes: a text would pass through another reading of international names.
            found = socket.getaddrinfo(host.encode("ascii"), None, type=socket.SOCK_STREAM)
            result = [str(where[0]) for family, *_, where in found if family in (socket.AF_INET, socket.AF_INET6)]
        except (OSError, UnicodeError) as error:
            result = error
        finally:
            self._places.give_back(holder)
        try:
            loop.call_soon_threadsafe(_settle, answer, result)
        except RuntimeError:
            # The loop has ended, and with it whoever asked.
            return


def _settle(answer: asyncio.Future[list[str]], result: list[str] | Exception) -> None:
    if answer.done():
        return
    if isinstance(result, Exception):
        answer.set_exception(result)
    else:
        answer.set_result(result)

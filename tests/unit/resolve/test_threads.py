"""Threads for file work: bounded, and a descriptor stays open as long as a thread uses it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial

import pytest

from agent_gate.model.errors import ToolError
from agent_gate.resolve.descriptors import Descriptor
from agent_gate.resolve.threads import FileThreads


def a_descriptor() -> Descriptor:
    return Descriptor(os.open("/", os.O_RDONLY))


def is_open(descriptor: Descriptor) -> bool:
    try:
        os.fstat(descriptor.number)
    except OSError:
        return False
    return True


async def until(holds: Callable[[], bool]) -> None:
    for _ in range(10_000):
        if holds():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it did not come to pass")


async def test_results_and_errors_come_back() -> None:
    threads = FileThreads(2, 10)
    assert await asyncio.gather(*(threads.run(partial(pow, number, 2)) for number in range(5))) == [0, 1, 4, 9, 16]

    def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        await threads.run(fail)


async def test_no_more_jobs_than_the_bound_are_taken() -> None:
    threads, go = FileThreads(1, 2), threading.Event()
    under_way = [asyncio.create_task(threads.run(go.wait)) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(ToolError, match="too much file work is waiting"):
        await threads.run(lambda: None)
    go.set()
    assert await asyncio.gather(*under_way) == [True, True]
    await threads.run(lambda: None)


async def test_a_descriptor_is_closed_only_when_the_thread_that_nobody_waits_for_has_ended() -> None:
    threads, begun, go = FileThreads(1, 10), threading.Event(), threading.Event()
    descriptor = a_descriptor()

    def work() -> None:
        begun.set()
        go.wait()

    task = asyncio.create_task(threads.run(work, descriptor))
    await until(begun.is_set)
    task.cancel()
    descriptor.leave()
    assert is_open(descriptor)
    go.set()
    await until(lambda: not is_open(descriptor))


async def test_a_job_that_has_not_begun_is_withdrawn_when_nobody_waits_for_it() -> None:
    threads, begun, go = FileThreads(1, 10), threading.Event(), threading.Event()
    descriptor, done = a_descriptor(), []

    def work() -> None:
        begun.set()
        go.wait()

    first = asyncio.create_task(threads.run(work))
    await until(begun.is_set)
    second = asyncio.create_task(threads.run(lambda: done.append(1), descriptor))
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.wait({second})
    descriptor.leave()
    assert not is_open(descriptor)
    go.set()
    await first
    assert done == []


def test_a_descriptor_that_everybody_forgot_is_closed() -> None:
    descriptor = a_descriptor()
    number = descriptor.number
    del descriptor
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)


def test_a_closed_descriptor_cannot_be_entered() -> None:
    descriptor = a_descriptor()
    descriptor.leave()
    with pytest.raises(ValueError, match="closed"):
        descriptor.enter()


def test_a_child_process_has_threads_of_its_own() -> None:
    program = """if True:
        import asyncio, os
        from agent_gate.resolve.threads import FileThreads
        threads = FileThreads(1, 10)
        assert asyncio.run(threads.run(lambda: 1)) == 1
        child = os.fork()
        if child == 0:
            os._exit(asyncio.run(threads.run(lambda: 42)))
        os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == 42

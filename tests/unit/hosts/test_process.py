"""The one way in which every process starts and ends, seen from outside."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from textwrap import dedent

import pytest

PATIENCE_S = 60.0

PROGRAM = """
import json, logging, sys, time
from agent_gate.hosts.process import run

def tell(event, text, fields):
    print(json.dumps([event, text, fields]), flush=True)

async def work(here):
    here.hide("found-on-the-way")
    logging.getLogger("x").warning("it is found-on-the-way")
    here.tell("ready", "", {})
    WAIT

run(work, None, "warning", tell, ending="what runs is answered")
"""


def started(wait: str) -> subprocess.Popen[str]:
    program = dedent(PROGRAM).replace("WAIT", wait)
    return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_ends_it_in_good_order_and_is_told(number: signal.Signals) -> None:
    with started("await here.ended.wait()") as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())[0] == "ready"
        process.send_signal(number)
        said, logged = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    words = "ending: what runs is answered, nothing more is taken in; once more ends at once"
    assert json.loads(said) == ["ending", words, {}]
    assert json.loads(logged)["event"] == "it is [secret]"


def test_the_second_signal_ends_it_at_once_also_where_the_event_loop_is_kept_busy() -> None:
    with started("[time.sleep(0.01) for _ in range(100_000)]") as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())[0] == "ready"
        for number in (signal.SIGTERM, signal.SIGINT):
            process.send_signal(number)
        process.communicate(timeout=PATIENCE_S)
    assert process.returncode in (128 + signal.SIGTERM, 128 + signal.SIGINT)


def test_sighup_ends_a_process_that_has_nothing_to_load_again() -> None:
    with started("await here.ended.wait()") as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGHUP)
        process.communicate(timeout=PATIENCE_S)
    assert process.returncode == -signal.SIGHUP

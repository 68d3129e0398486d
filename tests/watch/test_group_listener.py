"""Who was meant by a signal: this process, or its group."""

from __future__ import annotations

import subprocess
import sys

import psutil
import pytest

from tests.support.paths import ROOT

pytestmark = pytest.mark.process

LISTENS = """
import os, signal, sys
sys.path.insert(0, {root!r})
from perfdoctor.watch.group_listener import GroupListener
listener = GroupListener([signal.SIGINT, signal.SIGTERM])
came = []
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, frame: came.append((number, listener.heard(number, 0.5))))
for send in {sends}:
    eval(send)
print(came)
{then}
"""


def told(*sends: str, then: str = "listener.close()") -> str:
    """What a process in a group of its own is told of the signals that it sends."""
    code = LISTENS.format(root=str(ROOT), sends=list(sends), then=then)
    ended = subprocess.run(
        [sys.executable, "-c", code], start_new_session=True, capture_output=True, text=True, timeout=60
    )
    assert ended.stderr == ""
    return ended.stdout.strip()


def test_a_signal_for_the_group_is_told_from_one_for_this_process() -> None:
    alone, group = "os.kill(os.getpid(), 2)", "os.killpg(0, 2)"
    assert told(alone, group, group, alone) == "[(2, False), (2, True), (2, True), (2, False)]"


def test_signals_of_several_kinds_are_kept_apart() -> None:
    assert told("os.killpg(0, 15)", "os.kill(os.getpid(), 2)") == "[(15, True), (2, False)]"


# The handler of a second signal runs after the first one's has seen that there is something to read.
MEANWHILE = """
import select
came, look = [], select.select
def looked_meanwhile(*asked):
    select.select, found = look, look(*asked)
    came.append(listener.heard(signal.SIGTERM, 0.2))
    return found
select.select = looked_meanwhile
os.kill(listener._pid, signal.SIGTERM)
came.append(listener.heard(signal.SIGTERM, 0.2))
print(came)
listener.close()
"""


def test_a_second_signal_may_come_while_the_first_is_looked_into() -> None:
    assert told(then=MEANWHILE).splitlines()[-1] == "[True, False]"


def test_what_came_before_can_be_forgotten() -> None:
    before = "os.kill(listener._pid, 2)"
    assert (
        told(before, "__import__('time').sleep(0.5)", "listener.forget()", "os.kill(os.getpid(), 2)")
        == "[(2, False)]"
    )


@pytest.mark.parametrize("then", ["listener.close()", "os.kill(os.getpid(), 9)", "os._exit(0)"])
def test_it_ends_with_the_process_that_it_listens_for(then: str) -> None:
    pid = int(told(then=f"sys.stdout.flush(); print(listener._pid, flush=True); {then}").splitlines()[-1])
    psutil.wait_procs([psutil.Process(pid)] if psutil.pid_exists(pid) else [], timeout=10)
    assert not psutil.pid_exists(pid)


def test_one_that_was_killed_hears_nothing() -> None:
    assert told("os.kill(listener._pid, 9)", "os.killpg(0, 2)") == "[(2, False)]"

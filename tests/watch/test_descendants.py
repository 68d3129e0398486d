from __future__ import annotations

import subprocess

import psutil
import pytest

from perfdoctor.watch.descendants import lives, with_descendants
from tests.support.processes import wait_for

pytestmark = pytest.mark.process


@pytest.mark.slow
def test_a_process_comes_first_and_then_what_it_started():
    shell = subprocess.Popen(["sh", "-c", "sleep 60 & wait"])
    try:
        wait_for(lambda: len(with_descendants(shell.pid)) == 2)
        first, child = with_descendants(shell.pid)
        assert (first.pid, child.name()) == (shell.pid, "sleep")
        child.kill()
    finally:
        shell.wait(10)
    assert with_descendants(shell.pid) == []


def test_a_zombie_holds_nothing_any_more():
    ended = subprocess.Popen(["sleep", "60"])
    process = psutil.Process(ended.pid)
    assert lives(process)
    ended.kill()
    wait_for(lambda: process.status() == psutil.STATUS_ZOMBIE)
    assert not lives(process)
    ended.wait(10)
    assert not lives(process)

from __future__ import annotations

import sys

import pytest

pytest.importorskip("torch")

from perfdoctor.wire.events.startup import StartUpEvent
from tests.support.watched import read, updates, watched

pytestmark = pytest.mark.process

SCRIPT = """
    import time
    import torch

    def prepare():
        until = time.perf_counter() + 1.5
        while time.perf_counter() < until:
            sum(range(1000))

    prepare()
    FORK
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(20):
        optimizer.zero_grad()
        model(torch.ones(8, 4)).sum().backward()
        optimizer.step()
        time.sleep(0.05)
"""
FORK = "import os; child = os.fork(); child or os._exit(0); os.waitpid(child, 0); prepare()"


def test_lines_before_the_first_update_are_counted_and_none_after_it(tmp_path):
    (seen,) = watched(tmp_path, SCRIPT.replace("FORK", "pass")).ranks[0].of(StartUpEvent)
    prepared = [line for line in seen.lines if line["function"] == "prepare"]
    assert {line["line"] for line in prepared} <= {7, 8}
    assert {line["kind"] for line in prepared} == {"script"}
    assert sum(line["samples"] for line in seen.lines) <= seen.samples <= (seen.end_ns - seen.begin_ns) / 1e8
    assert 18 not in {line["line"] for line in seen.lines}  # the sleep after an update


@pytest.mark.shows("guest", "fork")
def test_sampling_ends_before_a_fork(tmp_path):
    (seen,) = watched(tmp_path, SCRIPT.replace("FORK", FORK)).ranks[0].of(StartUpEvent)
    again = [line for line in seen.lines if line["function"] == "prepare"]
    assert sum(line["samples"] for line in again) <= seen.samples <= 10 * (seen.end_ns - seen.begin_ns) / 1e9
    assert seen.end_ns <= updates(read(tmp_path))["begin_ns"][0] - 1.5e9


@pytest.mark.shows("guest", "fork")
@pytest.mark.skipif(sys.version_info < (3, 12), reason="older interpreters do not warn")
def test_a_fork_during_the_start_warns_of_no_thread(tmp_path):
    code = SCRIPT.replace("FORK", FORK).replace(
        "import time", "import warnings; warnings.simplefilter('error')\n    import time", 1
    )
    assert watched(tmp_path, code).ranks[0].of(StartUpEvent)

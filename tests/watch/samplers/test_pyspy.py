"""One look at the stacks of some processes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import orjson
import pytest

from perfdoctor.watch.samplers import pyspy
from perfdoctor.watch.samplers.pyspy import SampledStack
from tests.support.processes import BUSY, python, wait_for

pytestmark = pytest.mark.process

DUMP = [
    {
        "os_thread_id": 12,
        "thread_name": "MainThread",
        "frames": [
            {"name": "step", "filename": "/a b/t.py", "line": 3},
            {"name": "<module>", "filename": "/a b/t.py", "line": 9},
        ],
    },
    {"os_thread_id": None, "thread_name": None, "frames": []},
]


def test_a_dump_is_turned_to_begin_with_the_outermost_frame() -> None:
    assert list(pyspy.parse_dump(orjson.dumps(DUMP))) == [
        SampledStack(12, "MainThread", ("<module> (/a b/t.py:9)", "step (/a b/t.py:3)"), 1),
        SampledStack(0, "", (), 1),
    ]


@pytest.mark.skipif(pyspy.executable() is None, reason="py-spy is not installed")
def test_processes_are_looked_at_together_and_strangers_left_out(tmp_path: Path) -> None:
    program = str(pyspy.executable())
    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        with python(tmp_path, BUSY) as target:
            wait_for(lambda: target.pid in pyspy.dump(program, [target.pid]))
            found = pyspy.dump(program, [target.pid, sleeper.pid])
            assert set(found) == {target.pid}
            assert any("compute (" in frame for stack in found[target.pid] for frame in stack.frames)
    finally:
        sleeper.kill()
        sleeper.wait()

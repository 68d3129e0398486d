"""Systems that are not here, at the seam: what they lack is taken away, and a run is watched all the same."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.support.launching import bare, environment, runs

pytest.importorskip("torch")
pytestmark = [pytest.mark.slow, pytest.mark.process]

# As macOS has it: no /proc, no affinity, no prctl, and no leave for py-spy. Our psutil reads the system by other
# means there; here it gets a /proc of its own, at which nobody else looks.
LIKE_MACOS = """
import ctypes, os, sys
import psutil

NEW_NAMESPACE, PRIVATE, BIND = 0x20000, 0x44000, 0x1000
libc = ctypes.CDLL(None)
mounted = (
    libc.unshare(NEW_NAMESPACE),
    libc.mount(None, b"/", None, PRIVATE, None),
    libc.mount(b"/proc", os.fsencode(sys.argv[1]), None, BIND, None),
    libc.mount(b"none", b"/proc", b"tmpfs", 0, None),
)
if any(mounted):
    sys.exit("may not mount")
psutil.PROCFS_PATH = sys.argv.pop(1)
del os.sched_getaffinity, os.sched_setaffinity
from perfdoctor.watch.samplers import pyspy
pyspy.executable = lambda: None
from perfdoctor.cli import main
main()
"""
SCRIPT = """
import os
import torch

del os.sched_getaffinity, os.sched_setaffinity
data = torch.utils.data.TensorDataset(torch.ones(1200, 8))
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
if __name__ == "__main__":
    for (batch,) in torch.utils.data.DataLoader(data, 4, num_workers=1):
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
    print("trained", os.path.exists("/proc/self"))
"""


@pytest.mark.shows("versions")
def test_a_system_without_proc_and_without_py_spy_as_macos_is_has_its_report(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "real").mkdir()
    env = environment(OMP_NUM_THREADS="1", XDG_STATE_HOME=str(tmp_path), COLUMNS="100")
    words = (sys.executable, "-c", LIKE_MACOS, str(tmp_path / "real"), "run", "train.py")
    shown = bare(tmp_path, *words, env=env)
    if "may not mount" in shown.stderr:
        pytest.skip("nothing may be mounted here")
    assert (shown.status, shown.stdout) == (0, "trained False\n"), shown.stderr
    assert "  data wait  " in shown.stderr
    report = json.loads((runs(tmp_path)[0] / "report.json").read_text())
    assert report["steps"]["count"] == 300
    log = (runs(tmp_path)[0] / "probe.log").read_text()
    assert log == (
        "stacks cannot be sampled from outside, so the process samples its own: py-spy is not installed\n"
    )

"""On a CUDA device: what a recorded window says, against what the script itself measured.

Skipped without one. These have not been run on a device yet: see docs/gpu.md for what has.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from perfdoctor.render.notes import all_worded
from perfdoctor.runs import records, windows
from perfdoctor.trace.measure.measure import measure
from perfdoctor.trace.parse.read import read
from perfdoctor.trace.results import RankTrace

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")

BUSY_WITHIN = 0.02  # of what CUDA events measure around the same work
STEPS = 60
LOOP = """
import json, sys, time, torch
device = torch.device("cuda")
net = torch.nn.Sequential(*[torch.nn.Linear(4096, 4096) for _ in range(8)]).to(device)
sgd = torch.optim.SGD(net.parameters(), lr=1e-4)
pinned, pageable = torch.randn(512, 4096).pin_memory(), torch.randn(512, 4096)
inside = torch.randn(512, 4096, device=device)
events = []
for step in range({steps}):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    {body}
    end.record()
    events.append((begin, end))
torch.cuda.synchronize()
json.dump([begin.elapsed_time(end) for begin, end in events], open("elapsed.json", "w"))
"""
TRAIN = """loss = net({batch}).square().mean()
    loss.backward()
    sgd.step()
    sgd.zero_grad()"""


def run(folder: Path, body: str) -> dict[str, RankTrace]:
    """Run the loop with windows as early as they may come; the measured windows by kind."""
    script = folder / "train.py"
    script.write_text(LOOP.format(steps=STEPS, body=body))
    command = [sys.executable, "-m", "perfdoctor", "run", "-q", "--profiler-share", "1", "train.py"]
    subprocess.run(command, cwd=folder, check=True, timeout=300, env=os.environ | {"COLUMNS": "100"})
    (saved,) = (folder / ".perfdoctor" / "runs").iterdir()
    found = windows.of_lowest_rank(saved, records.read(saved).ranks)
    assert "plain" in found, (saved / "events.rank0.jsonl").read_text()
    return {kind: measure(read(path)) for kind, path in found.items()}


def test_the_devices_busy_time_is_what_cuda_events_measure(tmp_path: Path) -> None:
    """The device never waits in this loop, so the time between two events is time that it is busy."""
    window = run(tmp_path, TRAIN.format(batch="inside"))["plain"]
    elapsed_ms = sorted(json.loads((tmp_path / "elapsed.json").read_text()))
    usual_ms = elapsed_ms[len(elapsed_ms) // 2]
    assert window.times is not None
    busy_ms = window.times.busy_us / window.times.span_us * usual_ms
    assert busy_ms == pytest.approx(usual_ms, rel=BUSY_WITHIN)
    kernels_ms = sum(step.times.busy_us for step in window.steps[1:]) / len(window.steps[1:]) / 1e3
    assert kernels_ms == pytest.approx(
        usual_ms, rel=3 * BUSY_WITHIN
    )  # the host's steps cut the device's work


@pytest.mark.parametrize(("source", "memory"), [("pinned", "pinned"), ("pageable", "pageable")])
def test_copies_from_pinned_and_from_pageable_memory_are_told_apart(
    tmp_path: Path, source: str, memory: str
) -> None:
    window = run(tmp_path, TRAIN.format(batch=f"{source}.to(device, non_blocking=True)"))["plain"]
    copies = {copy.host_memory: copy for copy in window.copies if copy.direction == "HtoD"}
    assert memory in copies
    assert copies[memory].bytes == copies[memory].count * 512 * 4096 * 4
    rate = copies[memory].gb_per_s
    assert rate is not None
    assert 0.5 < rate < 500


def test_a_planted_item_is_found_at_its_line_with_its_milliseconds(tmp_path: Path) -> None:
    body = TRAIN.format(batch="inside") + "\n    asked = time.perf_counter()\n    loss.item()\n"
    body += '    print("waited", time.perf_counter() - asked, file=sys.stderr)'
    windows = run(tmp_path, body)
    line = (tmp_path / "train.py").read_text().split("\n").index("    loss.item()") + 1
    waits = [call for call in windows["plain"].blocking if call.op == "aten::item"]
    assert waits
    elapsed_ms = sorted(json.loads((tmp_path / "elapsed.json").read_text()))
    per_step_ms = waits[0].us / 1e3 / len(windows["plain"].steps)
    assert 0.3 * elapsed_ms[STEPS // 2] < per_step_ms <= 1.1 * elapsed_ms[STEPS // 2]
    if "stacks" in windows:
        places = [call.at.line for call in windows["stacks"].blocking if call.at and call.op == "aten::item"]
        # A Python function event names the function's first line: at module level, line 1.
        assert places
        assert all(place <= line for place in places)


def test_a_window_whose_kernels_were_lost_is_no_idle_device(tmp_path: Path) -> None:
    run(tmp_path, TRAIN.format(batch="inside"))
    (path, *_) = sorted(tmp_path.glob(".perfdoctor/runs/*/trace.rank0.0.json.gz"))
    whole = json.loads(gzip.decompress(path.read_bytes()))
    whole["traceEvents"] = [event for event in whole["traceEvents"] if event.get("cat") != "kernel"]
    lost = tmp_path / "lost.json"
    lost.write_text(json.dumps(whole))
    measured = measure(read(lost))
    assert measured.times is None
    assert any("none was recorded" in note for note in all_worded(measured.notes))


@pytest.mark.shows("guest")
def test_watching_adds_no_synchronisation(tmp_path: Path) -> None:
    """Without the windows' own start and stop, the script's waits are all there is."""
    window = run(tmp_path, TRAIN.format(batch="inside"))["plain"]
    inside = [call for call in window.blocking if call.annotation is not None or call.op is not None]
    assert sum(call.count for call in inside) == 0


def test_what_a_roofline_calls_its_peak_is_not_exceeded(tmp_path: Path) -> None:
    windows = run(tmp_path, TRAIN.format(batch="inside"))
    shapes = windows.get("shapes")
    if shapes is None or shapes.peak is None:
        pytest.skip("no window with shapes, or a device whose peak is not known")
    for roof in shapes.roofs:
        assert roof.flops_share is None or roof.flops_share <= 1.05
        assert roof.bytes_share is None or roof.bytes_share <= 1.05

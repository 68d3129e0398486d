"""On a CUDA device: what a recorded window says, against what the script itself measured.

Skipped without one.
"""

from __future__ import annotations

import gzip
import json
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from perfdoctor.render.notes import all_worded
from perfdoctor.runs import records, windows
from perfdoctor.trace.measure.measure import measure
from perfdoctor.trace.parse.read import read
from perfdoctor.trace.results import RankTrace

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    pytest.mark.process,
]

BUSY_WITHIN = 0.02  # of what CUDA events measure around the same work
STEPS = 500  # some seconds: a window in a shorter run would take too much of it
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


@dataclass(frozen=True)
class Watched:
    """A loop that was run with windows as early as they may come."""

    folder: Path
    windows: dict[str, RankTrace]  # measured, by kind

    @property
    def usual_ms(self) -> float:
        """What CUDA events measured around the median step."""
        elapsed_ms: list[float] = json.loads((self.folder / "elapsed.json").read_text())
        return statistics.median(elapsed_ms)


def run(folder: Path, body: str) -> Watched:
    """Run the loop, with `body` as its step."""
    script = folder / "train.py"
    script.write_text(LOOP.format(steps=STEPS, body=body))
    command = [sys.executable, "-m", "perfdoctor", "run", "-q", "--profiler-share", "1", "train.py"]
    subprocess.run(command, cwd=folder, check=True, timeout=300, env=os.environ | {"COLUMNS": "100"})
    (saved,) = (folder / ".perfdoctor" / "runs").iterdir()
    found = windows.of_lowest_rank(saved, records.read(saved).ranks)
    assert "plain" in found, (saved / "events.rank0.jsonl").read_text()
    return Watched(folder, {kind: measure(read(path)) for kind, path in found.items()})


@pytest.fixture(scope="module")
def inside(tmp_path_factory: pytest.TempPathFactory) -> Watched:
    """The loop whose batch lies on the device."""
    return run(tmp_path_factory.mktemp("inside"), TRAIN.format(batch="inside"))


def test_the_devices_busy_time_is_what_cuda_events_measure(inside: Watched) -> None:
    """The device never waits in this loop, so the time between two events is time that it is busy."""
    window = inside.windows["plain"]
    # Without the first step: the device starts empty, as its profiler waited for it.
    steps = [step.times for step in window.steps[1:]]
    busy = sum(times.busy_us for times in steps) / sum(times.span_us for times in steps)
    assert busy == pytest.approx(1.0, abs=BUSY_WITHIN)
    kernels_ms = statistics.fmean(times.busy_us for times in steps) / 1e3
    # The host's steps cut the device's work.
    assert kernels_ms == pytest.approx(inside.usual_ms, rel=3 * BUSY_WITHIN)


@pytest.mark.parametrize(("source", "memory"), [("pinned", "pinned"), ("pageable", "pageable")])
def test_copies_from_pinned_and_from_pageable_memory_are_told_apart(
    tmp_path: Path, source: str, memory: str
) -> None:
    watched = run(tmp_path, TRAIN.format(batch=f"{source}.to(device, non_blocking=True)"))
    window = watched.windows["plain"]
    copies = {copy.host_memory: copy for copy in window.copies if copy.direction == "HtoD"}
    assert memory in copies
    assert copies[memory].bytes == copies[memory].count * 512 * 4096 * 4
    rate = copies[memory].gb_per_s
    assert rate is not None
    assert 0.5 < rate < 500


def test_a_planted_item_is_found_at_its_line_with_its_milliseconds(tmp_path: Path) -> None:
    body = TRAIN.format(batch="inside") + "\n    asked = time.perf_counter()\n    loss.item()\n"
    body += '    print("waited", time.perf_counter() - asked, file=sys.stderr)'
    watched = run(tmp_path, body)
    line = (tmp_path / "train.py").read_text().split("\n").index("    loss.item()") + 1
    waits = [call for call in watched.windows["plain"].blocking if call.op == "aten::item"]
    assert waits
    per_step_ms = waits[0].us / 1e3 / len(watched.windows["plain"].steps)
    assert 0.3 * watched.usual_ms < per_step_ms <= 1.1 * watched.usual_ms
    if "stacks" in watched.windows:
        calls = watched.windows["stacks"].blocking
        places = [call.at.line for call in calls if call.at and call.op == "aten::item"]
        # A Python function event names the function's first line: at module level, line 1.
        assert places
        assert all(place <= line for place in places)


def test_a_window_whose_kernels_were_lost_is_no_idle_device(inside: Watched, tmp_path: Path) -> None:
    (path, *_) = sorted(inside.folder.glob(".perfdoctor/runs/*/trace.rank0.0.json.gz"))
    whole = json.loads(gzip.decompress(path.read_bytes()))
    whole["traceEvents"] = [event for event in whole["traceEvents"] if event.get("cat") != "kernel"]
    lost = tmp_path / "lost.json"
    lost.write_text(json.dumps(whole))
    measured = measure(read(lost))
    assert measured.times is None
    assert any("none recorded" in note for note in all_worded(measured.notes))


@pytest.mark.shows("guest")
def test_watching_adds_no_synchronisation(inside: Watched) -> None:
    """Without the windows' own start and stop, the script's waits are all there is."""
    waits = inside.windows["plain"].blocking
    assert sum(call.count for call in waits if call.annotation is not None or call.op is not None) == 0


def test_what_a_roofline_calls_its_peak_is_not_exceeded(inside: Watched) -> None:
    shapes = inside.windows.get("shapes")
    if shapes is None or shapes.peak is None:
        pytest.skip("no window with shapes, or a device whose peak is not known")
    for roof in shapes.roofs:
        assert roof.flops_share is None or roof.flops_share <= 1.05
        assert roof.bytes_share is None or roof.bytes_share <= 1.05

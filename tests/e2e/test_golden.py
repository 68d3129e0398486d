"""Real traces, measured by an independent program: every number that both know must agree."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perfdoctor.diagnosis.trace_report import report
from perfdoctor.trace.measure.measure import measure
from perfdoctor.trace.parse.read import read
from perfdoctor.trace.results import KernelClass, RankTrace, Times
from tests.support import golden_traces
from tests.support.paths import TRACES

pytestmark = pytest.mark.process

# The reference adds up float64 microseconds, of which one holds a nanosecond or two this long after the clock began.
ABSOLUTE_US = 0.1
RELATIVE = 1e-6


def ranks() -> Iterator[Any]:
    for golden in sorted((TRACES / "golden").glob("*.json")):
        document = json.loads(golden.read_text())
        folder = TRACES / document["id"] if (TRACES / document["id"]).is_dir() else TRACES
        for rank, reference in document["ref"]["ranks"].items():
            files = [entry["file"] for entry in document["files"]]
            file = files[0] if len(files) == 1 else next(name for name in files if f"rank{rank}." in name)
            yield pytest.param(folder / Path(file).name, reference, id=f"{document['id']}-{rank}")


@pytest.fixture(scope="module")
def measured() -> dict[Path, RankTrace]:
    """Each file is read once."""
    return {}


@pytest.fixture
def found(measured: dict[Path, RankTrace], path: Path) -> RankTrace:
    if path not in measured:
        measured[path] = measure(read(path))
    return measured[path]


@pytest.fixture(scope="module")
def unmarked() -> dict[Path, RankTrace]:
    """Each file is read once more."""
    return {}


@pytest.fixture
def whole(unmarked: dict[Path, RankTrace], path: Path) -> RankTrace:
    """The file without its steps: the reference counts what lies outside them, too."""
    if path not in unmarked:
        unmarked[path] = measure(golden_traces.unmarked(read(path)))
    return unmarked[path]


@pytest.fixture
def marked(path: Path) -> dict[str, Times]:
    """The steps as the host marks them: the reference clips the device's work to them."""
    return golden_traces.between_marks(read(path))


def near(value: float) -> Any:
    return pytest.approx(value, rel=RELATIVE, abs=ABSOLUTE_US)


every_rank = pytest.mark.parametrize(("path", "expected"), list(ranks()))


@every_rank
def test_span_busy_and_overlaps_are_those_of_the_reference(
    found: RankTrace, expected: dict[str, Any]
) -> None:
    assert found.device_events == expected["gpu_events"]
    if not expected["gpu_events"]:
        assert found.times is None
        return
    times = found.times
    assert times is not None
    assert {
        "gpu_span_us": times.span_us, "busy_us": times.busy_us, "idle_us": times.idle_us,
        "compute_us": times.compute_us, "comm_us": times.comm_us, "mem_us": times.copy_us,
        "comm_comp_overlap_us": times.overlap_us, "exposed_comm_us": times.exposed_comm_us,
        "mem_comp_overlap_us": times.copy_overlap_us,
    } == {name: near(expected[name]) for name in (
        "gpu_span_us", "busy_us", "idle_us", "compute_us", "comm_us", "mem_us", "comm_comp_overlap_us",
        "exposed_comm_us", "mem_comp_overlap_us",
    )}  # fmt: skip
    assert sum(found.idle_us.values()) == near(times.idle_us)


@every_rank
def test_kernels_are_those_of_the_reference(whole: RankTrace, expected: dict[str, Any]) -> None:
    found = whole
    if "kernel_count" not in expected:
        assert not found.kernels
        return
    kernels = [use for use in found.kernels if not use.name.startswith(("Memcpy", "Memset"))]
    assert sum(use.count for use in kernels) == expected["kernel_count"]
    assert sum(use.us for use in kernels) == near(expected["kernel_sum_us"])
    assert len(kernels) == expected["distinct_kernels"]
    assert [use.us for use in kernels[:10]] == [near(top["us"]) for top in expected["top10_kernels"]]
    for top in expected["top10_kernels"]:
        # The reference cuts long names, and kernels that take equally long come in any order.
        known = [use for use in kernels if use.name.startswith(top["name"])]
        assert any(use.count == top["n"] and use.us == near(top["us"]) for use in known), top["name"]
    assert sum(use.us for use in found.classes) == near(sum(use.us for use in found.kernels))
    assert sum(use.count for use in found.classes) == expected["gpu_events"]


@every_rank
def test_copies_are_those_of_the_reference(whole: RankTrace, expected: dict[str, Any]) -> None:
    found = whole
    reference: dict[tuple[str, str | None], tuple[int, Any, int | None]] = {}
    for name, copy in expected["memcpy"].items():
        memory = next((word for word in ("Pageable", "Pinned") if word in name), None)
        reference[name.split()[1], memory and memory.lower()] = (copy["n"], near(copy["us"]), copy["bytes"])
    assert {(use.direction, use.host_memory): (use.count, use.us) for use in found.copies} == {
        copy: (count, us) for copy, (count, us, _) in reference.items()
    }
    for use in found.copies:
        # Where ROCm leaves bytes out, the reference adds up those that it finds; here they are not known.
        assert use.bytes in (reference[use.direction, use.host_memory][2], None)
        assert use.bytes is not None or "hip" in str(found.runtime_us)


@every_rank
def test_gaps_on_streams_are_those_of_the_reference(found: RankTrace, expected: dict[str, Any]) -> None:
    streams = {f"{use.device}/{use.stream}": use for use in found.streams}
    assert streams.keys() == expected.get("streams", {}).keys()
    for name, stream in expected.get("streams", {}).items():
        use = streams[name]
        assert (use.count, use.busy_us) == (stream["n"], near(stream["busy_us"]))
        assert (use.host_wait_us, use.kernel_wait_us, use.other_gap_us) == (
            near(stream["gap_host_wait_us"]),
            near(stream["gap_kernel_wait_us"]),
            near(stream["gap_other_us"]),
        )


@every_rank
def test_runtime_calls_and_launches_are_those_of_the_reference(
    whole: RankTrace, expected: dict[str, Any]
) -> None:
    found = whole
    for name, count in expected["runtime_calls"].items():
        assert found.runtime_us[name][0] == count
    for name, us in expected["runtime_time_us"].items():
        assert found.runtime_us[name][1] == near(us)
    sync = expected["sync_calls"]
    assert found.sync_us == near(sum(call["us"] for call in sync.values()))
    for name, call in sync.items():
        blocking = [use for use in found.blocking if use.call == name]
        assert sum(use.count for use in blocking) == call["n"]
        assert sum(use.us for use in blocking) == near(call["us"])
    delay = expected.get("launch_delay_us(kernel.ts - runtime.end)")
    if not delay or not delay["n"]:
        assert found.launches is None
        return
    assert found.launches is not None
    assert found.launches.count == delay["n"]
    # The reference rounds the mean and the 90th percentile.
    assert found.launches.delay_median_us == pytest.approx(delay["median"], abs=ABSOLUTE_US)
    assert found.launches.delay_mean_us == pytest.approx(delay["mean"], abs=0.06)
    assert found.launches.delay_p90_us == pytest.approx(delay["p90"], abs=0.06)


@every_rank
def test_steps_and_dataloader_are_those_of_the_reference(
    found: RankTrace, marked: dict[str, Times], expected: dict[str, Any]
) -> None:
    steps = {step.name.removeprefix("ProfilerStep#"): step for step in found.steps}
    times = {name.removeprefix("ProfilerStep#"): between for name, between in marked.items()}
    assert {name: times[name].span_us for name in steps} == {
        name: near(us) for name, us in expected["steps"].items()
    }
    assert (found.dataloader_count, found.dataloader_us) == (
        expected["dataloader"]["n"],
        near(expected["dataloader"]["us"]),
    )
    for name, step in (expected.get("per_step") or {}).items():
        assert by_reference(times[name], steps[name].dataloader_us) == {
            key: near(step[key])
            for key in ("dur_us", "gpu_busy_us", "compute_us", "comm_us", "dataloader_us")
        }
        assert sum(steps[name].idle_us.values()) == near(steps[name].times.idle_us)
    window = expected.get("steps_window")
    if window and found.times:
        assert found.window is not None
        assert (found.window.span_us, found.window.busy_us) == (
            near(window["dur_us"]),
            near(window["gpu_busy_us"]),
        )


def by_reference(times: Times, dataloader_us: float) -> dict[str, float]:
    return {
        "dur_us": times.span_us,
        "gpu_busy_us": times.busy_us,
        "compute_us": times.compute_us,
        "comm_us": times.comm_us,
        "dataloader_us": dataloader_us,
    }


@every_rank
def test_little_device_time_is_left_without_a_class(found: RankTrace, expected: dict[str, Any]) -> None:
    total = sum(use.us for use in found.classes)
    other = sum(use.us for use in found.classes if use.kind is KernelClass.OTHER)
    assert other <= 0.02 * total or expected["gpu_events"] < 10


# What was looked up in each trace: attention written out (TimeSformer, a decoder), a ResNet in bfloat16 whose tensors
# are channels first. No other trace shows one of these patterns in a share of its time that matters.
TOLD = {
    "tl_mi300_resnet_actckpt_rank0of8": {"channels-first-convolutions"},
    "tl_timesformer_h100": {"materialised-attention"},
    "tl_timesformer_mi300": {"materialised-attention"},
}
LOOKED_FOR = {
    "blocking-copies", "channels-first-convolutions", "cpu-fallback", "device-sync-in-loop", "many-small-copies",
    "materialised-attention", "round-trips", "slow-kernel", "tensors-created-on-host", "tf32-off",
    "untuned-convolutions", "float-batches-over-the-bus",
}  # fmt: skip


@every_rank
def test_a_pattern_is_told_where_the_trace_shows_it_and_nowhere_else(
    found: RankTrace, path: Path, expected: dict[str, Any]
) -> None:
    told = {finding.id for finding in report([found]).findings}
    assert told & LOOKED_FOR == TOLD.get(path.name.partition(".")[0], set())

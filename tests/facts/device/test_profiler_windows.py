"""Windows explain a run: the device's time from them, the step's length from the timers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts import registry
from perfdoctor.facts.device.device import (
    AttentionFacts,
    CopyFacts,
    DeviceFacts,
    KernelFacts,
    MatrixFacts,
    WaitFacts,
)
from perfdoctor.facts.device.exact_lines import LineFinder
from perfdoctor.facts.device.profiler_windows import (
    NO_SHAPES,
    NO_WINDOW,
    NO_WORK,
    NO_WORK_IN_WSL,
    NOT_RECORDED,
    MeasuredWindows,
    attention_facts,
    unprofiled,
)
from perfdoctor.facts.device.weighted_attention import WeightedAttention
from perfdoctor.facts.given import AllRanks
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.lines import StepLines
from perfdoctor.model.measured import (
    LineCost,
    LoaderFacts,
    Location,
    RunFacts,
    StackFacts,
    StepFacts,
    WindowFacts,
)
from perfdoctor.model.missing import Missing
from perfdoctor.model.ranks import GradientSyncFacts, Straggler
from perfdoctor.render.notes import all_worded
from perfdoctor.runs.types import RankRecords, RunRecords
from perfdoctor.trace.lost import INVALID
from perfdoctor.trace.results import DevicePeak, IdleCause, Launches, OpUse
from tests.support import facts
from tests.support.judging import report
from tests.support.rank_traces import (
    attention,
    copy,
    kernel,
    launches,
    matrix,
    rank,
    round_trip,
    site,
    step,
    wait,
)
from tests.support.records import MS, no_source, records, rows, source_of, update

ON_DEVICE = (
    DeviceFacts, KernelFacts, MatrixFacts, CopyFacts, WaitFacts, Launches, DevicePeak, Straggler,
    GradientSyncFacts,
)  # fmt: skip


def groups_of(
    windows: MeasuredWindows, of_step: StepFacts, on_device: bool, recorded: RunRecords | None = None
) -> dict[object, object]:
    """What facts on the windows come to in a run with this step."""
    given = recorded or records()
    known: dict[object, object] = {
        RunRecords: given, RankRecords: given.ranks.get(0), MeasuredWindows: windows, StepFacts: of_step, RunFacts: facts.run(device="V100" if on_device else "cpu"),
        Sources: Sources(no_source), StepLines: None, LoaderFacts: None, StackFacts: Missing("no stack samples were taken"), AllRanks: None,
    }  # fmt: skip
    for fact in registry.facts():
        if all(need.kind in known for need in fact.needs.values()):
            known.setdefault(fact.kind, fact.of(known))
    return known


ON_CPU = replace(
    rank(ops=(OpUse("aten::mm", 10, 30.0, 0.0, 0), OpUse("aten::add", 40, 10.0, 0.0, 0))),
    times=None,
    device=None,
)


def test_without_a_device_a_window_tells_the_operators_and_nothing_is_missing() -> None:
    groups = groups_of({"plain": ON_CPU}, facts.step(forward=1.0), on_device=False)
    window = groups[WindowFacts]
    assert isinstance(window, WindowFacts)
    assert [(op.name, op.share, op.calls_per_step) for op in window.operators] == [
        ("aten::mm", 0.75, 2.0),
        ("aten::add", 0.25, 8.0),
    ]
    assert not window.on_device
    assert [groups[kind] for kind in ON_DEVICE] == [None] * len(ON_DEVICE)


def test_with_a_device_and_no_window_every_group_says_so() -> None:
    groups = groups_of({}, facts.step(forward=1.0), on_device=True)
    assert {groups[kind] for kind in (*ON_DEVICE, AttentionFacts)} == {NO_WINDOW}
    assert Missing("no torch.profiler window was recorded") == NO_WINDOW


def test_a_window_without_device_work_is_no_idle_device() -> None:
    groups = groups_of({"plain": ON_CPU}, facts.step(forward=1.0), on_device=True)
    assert groups[DeviceFacts] == NO_WORK


def test_a_profiler_that_was_refused_the_device_is_told_from_a_device_without_work() -> None:
    groups = groups_of({"plain": replace(ON_CPU, notes=(INVALID,))}, facts.step(forward=1.0), on_device=True)
    assert groups[DeviceFacts] == NOT_RECORDED


@pytest.mark.shows("versions")
def test_under_wsl_operators_are_timed_on_the_cpu_and_the_report_says_why() -> None:
    host = {"platform": "Linux-5.15.167.4-microsoft-standard-WSL2-x86_64-with-glibc2.35", "usable_cores": 4}
    groups = groups_of({"plain": ON_CPU}, facts.step(forward=1.0), True, records(run={"host": host}))
    assert {groups[kind] for kind in ON_DEVICE} == {NO_WORK_IN_WSL}
    window = groups[WindowFacts]
    assert isinstance(window, WindowFacts)
    assert not window.on_device
    assert window.operators[0].name == "aten::mm"


@pytest.mark.parametrize("outcome", ["ok", "abandoned"])
def test_why_a_window_left_the_device_out_is_the_reason_for_what_is_missing(outcome: str) -> None:
    because = "NSYS_PROFILING_SESSION_ID is set: another profiler reads the device"
    event = {"event": "window", "outcome": outcome, "because": because}
    groups = groups_of({"plain": ON_CPU}, facts.step(forward=1.0), True, records(events=[event]))
    told = Missing(f"torch.profiler recorded the CPU alone: {because}")
    assert groups[DeviceFacts] == (told if outcome == "ok" else NO_WORK)


def test_each_kind_of_window_gives_what_it_alone_knows() -> None:
    shapes, stacks = rank(matrices=(matrix(7, 8, 9, 10.0),)), rank(blocking=(wait(line=33),))
    windows = {"plain": rank(blocking=(wait(line=None),)), "shapes": shapes, "stacks": stacks}
    groups = groups_of(windows, facts.step(forward=100), on_device=True)
    matrices, waits = groups[MatrixFacts], groups[WaitFacts]
    assert isinstance(matrices, MatrixFacts)
    assert isinstance(waits, WaitFacts)
    assert matrices.matrices == shapes.matrices
    assert waits.calls[0].at is not None
    assert waits.calls[0].at.line == 33
    assert groups_of({"plain": rank()}, facts.step(forward=100), True)[MatrixFacts] == NO_SHAPES


def test_copies_and_kernels_take_their_lines_from_the_window_with_stacks() -> None:
    one, other = copy("HtoD", "pinned", 5.0), copy("DtoH", "pageable", 1.0)
    shapes = rank(
        copies=(one, other), sites=(site(line=None, made_by="aten::randn"), site("DtoH", "pageable", line=None)),
        round_trips=(round_trip(idle=100),), kernels=(kernel("gemm", "matmul", 9),), attention=(attention(),),
    )  # fmt: skip
    plain = rank(round_trips=(replace(round_trip(), out_at=None, back_at=None),))
    at = site(line=33).at
    stacks = rank(
        copies=(one,), sites=(site(line=33, shape=()),), round_trips=(round_trip(),),
        kernels=(replace(kernel("gemm", "matmul", 8), at=at),), attention=(replace(attention(), at=at),),
    )  # fmt: skip
    groups = groups_of({"plain": plain, "shapes": shapes, "stacks": stacks}, facts.step(forward=100), True)
    copies, kernels, attended = (groups[kind] for kind in (CopyFacts, KernelFacts, AttentionFacts))
    assert isinstance(copies, CopyFacts)
    assert isinstance(kernels, KernelFacts)
    assert isinstance(attended, AttentionFacts)
    assert [(found.made_by, found.at) for found in copies.sites] == [("aten::randn", at), (None, None)]
    assert copies.round_trips.trips == (round_trip(),)
    assert [use.at for use in kernels.kernels] == [at]
    assert attended.at == (at,)
    assert copies.per_us == pytest.approx(1 / 500_000)


def test_how_long_the_host_copies_is_told_by_the_timers() -> None:
    windows = {"plain": rank(copies=(copy("HtoD", "pageable", 5.0),))}
    copies = groups_of(windows, facts.step(host_to_device=30, forward=70), True)[CopyFacts]
    assert isinstance(copies, CopyFacts)
    assert copies.timed == pytest.approx(0.3)


def test_attention_is_told_without_a_device_too() -> None:
    window = replace(ON_CPU, attention=(attention(),))
    found = groups_of({"plain": window}, facts.step(forward=1.0), on_device=False)[AttentionFacts]
    assert isinstance(found, AttentionFacts)
    assert found.per_us == pytest.approx(1 / 500_000)
    assert groups_of({"plain": ON_CPU}, facts.step(forward=1.0), False)[AttentionFacts] is None


@pytest.mark.parametrize(
    ("windows", "unused", "said"),
    [
        pytest.param(True, 1.0, 1 / 500_000, id="a-window"),
        pytest.param(True, 0.5, 1 / 1_000_000, id="half-of-it"),
        pytest.param(True, 0.0, None, id="weights-that-are-used"),
        pytest.param(False, 1.0, 1 / 1_000, id="samples-alone"),
        pytest.param(False, 0.0, NO_WINDOW, id="used-without-a-window"),
    ],
)
def test_attention_of_torchs_counts_where_nothing_uses_its_weights(
    windows: bool, unused: float, said: float | Missing | None
) -> None:
    at = Location("train.py", 9, "forward", "h, _ = self.attention(h, h, h)")
    lines = (LineCost(at, 0.2, 20),) if unused else ()
    found = attention_facts(
        {"plain": replace(ON_CPU, attention=(attention(),))} if windows else {}, None,
        LineFinder(Sources(no_source), facts.run(), None), Missing("none"), facts.step(forward=1.0), Sources(no_source),
        None, WeightedAttention(lines, unused, 0.1, 0.1),
    )  # fmt: skip
    if isinstance(found, AttentionFacts):
        assert (found.per_us, found.at, found.unused_weights) == (pytest.approx(said), (at,), True)
    else:
        assert found == said


@pytest.mark.parametrize(("unfused", "per_us"), [(0, 1 / 500_000), (1, 1 / 1_000_000), (2, None)])
def test_attention_that_no_fused_kernel_takes_over_is_left_out(unfused: int, per_us: float | None) -> None:
    window = replace(ON_CPU, attention=(attention(),))
    told = {"event": "written_attention", "written": 2, "unfused": unfused}
    recorded = records(events=[told])
    found = groups_of({"plain": window}, facts.step(forward=1.0), False, recorded)[AttentionFacts]
    assert getattr(found, "per_us", None) == (per_us and pytest.approx(per_us))


@pytest.mark.parametrize(
    ("mean_s", "compute"), [(0.100, 0.6), (0.080, 0.75), (0.060, 1.0), (0.040, 1.0), (0.120, 0.5)]
)
def test_the_devices_time_keeps_its_length_when_the_host_is_not_slowed(mean_s: float, compute: float) -> None:
    """Five profiled steps of 100 ms hold 60 ms of computing each."""
    found = unprofiled(rank(), facts.step(forward=mean_s * 1e3))
    assert found is not None
    assert found.compute == pytest.approx(compute)
    assert found.compute + found.exposed_comm + found.exposed_copy + sum(
        found.idle.values()
    ) == pytest.approx(1.0)
    assert found.per_step_s(1.0) == pytest.approx(mean_s)
    assert not found.profiled


@pytest.mark.parametrize(("mean_s", "away"), [(0.100, 0.2), (0.080, 0.25), (0.060, 0.0)])
def test_a_profiler_makes_no_way_to_the_host_and_back_longer(mean_s: float, away: float) -> None:
    trace = rank(round_trips=(round_trip(idle=100),))
    found = unprofiled(trace, facts.step(forward=mean_s * 1e3))
    assert found is not None
    assert found.away == pytest.approx(away)


def test_without_marked_steps_the_shares_are_those_of_a_profiled_host() -> None:
    found = unprofiled(replace(rank(), steps=()), facts.step(forward=100))
    assert found is not None
    assert found.profiled


@pytest.mark.parametrize(("mean_s", "idle"), [(0.100, 0.4), (0.080, 0.25), (0.060, 0.0)])
def test_waits_promise_no_more_than_the_device_idles_without_a_profiler(mean_s: float, idle: float) -> None:
    windows = {"plain": rank(), "stacks": rank(blocking=(wait(ms=300, idle=250),))}
    waits = groups_of(windows, facts.step(forward=mean_s * 1e3), on_device=True)[WaitFacts]
    assert isinstance(waits, WaitFacts)
    _, idles, gone = waits.behind(waits.calls)
    assert (idles, gone) == pytest.approx((idle, idle))


def test_the_window_that_disturbs_least_tells_how_long_is_waited_and_the_one_with_stacks_where() -> None:
    there, here = wait(ms=30, idle=10, count=30, line=9), wait(ms=3, idle=1, count=10, line=7)
    windows = {
        "plain": rank(blocking=(wait(ms=100, idle=40, count=40, line=None),)),
        "stacks": rank(blocking=(there, here)),
    }
    waits = groups_of(windows, facts.step(forward=100), on_device=True)[WaitFacts]
    assert isinstance(waits, WaitFacts)
    told = [(call.at and call.at.line, call.count, call.us, call.idle_us) for call in waits.calls]
    assert told == [(9, 30, 75_000.0, 30_000.0), (7, 10, 25_000.0, 10_000.0)]


def test_a_window_with_stacks_alone_tells_of_waits_as_well() -> None:
    windows = {"plain": rank(), "stacks": rank(blocking=(wait(ms=30, idle=10),))}
    assert groups_of(windows, facts.step(forward=100), on_device=True)[WaitFacts] is not None


def test_what_only_the_first_step_takes_is_no_waiting_of_the_device() -> None:
    """It compiles for 10 s; after that the device computes for 60 of 100 ms, as in the window."""
    compiled = replace(facts.step(forward=200), first_longer_s=10.0, count=100)
    found = unprofiled(rank(), compiled)
    assert found is not None
    assert found.compute == pytest.approx(0.6)


def test_compiling_the_model_is_about_the_hosts_time_in_it() -> None:
    found = unprofiled(rank(), facts.step(data_wait=20, forward=30, backward=30, optimizer=60))
    assert found is not None
    assert found.compilable == pytest.approx(0.5)


def test_what_only_the_first_step_takes_is_no_time_in_the_model() -> None:
    """Near 219 steps on an H200, of which the first loads cuDNN's kernels for 450 ms."""
    first = replace(facts.step(forward=3.0, backward=3.5, other=12.1, host_to_device=1.7), count=219)
    found = unprofiled(rank(), replace(first, first_longer_s=0.43))
    assert found is not None
    assert found.compilable == pytest.approx(0.25, abs=0.01)


@pytest.mark.parametrize(
    ("waited_ms", "seen_ms", "in_loader_ms", "data", "late"),
    [
        pytest.param(80, 0, 0, 0.40, 0.30, id="the-window-saw-none"),
        pytest.param(0, 0, 0, 0.0, 0.70, id="none"),
        pytest.param(0, 20, 20, 0.35, 0.35, id="the-window-saw-all"),
        pytest.param(180, 20, 20, 0.70, 0.0, id="the-timers-saw-more-than-all"),
        pytest.param(80, 40, 40, 0.70, 0.0, id="for-nothing-else"),
        pytest.param(80, 0, 30, 0.0, 0.70, id="hidden-behind-the-device"),
        pytest.param(80, 5, 20, 0.10, 0.60, id="partly-hidden"),
    ],
)
def test_what_the_device_idles_for_batches_is_at_least_what_the_timers_saw(
    waited_ms: int, seen_ms: int, in_loader_ms: int, data: float, late: float
) -> None:
    """Five profiled steps of 100 ms idle 40 ms each; a usual step takes 200 ms."""
    steps = tuple(step(number, data=in_loader_ms, idle={"data_wait": seen_ms}) for number in range(3, 8))
    found = unprofiled(rank(steps), facts.step(data_wait=waited_ms, forward=200 - waited_ms))
    assert found is not None
    assert found.compute == pytest.approx(0.3)
    assert found.idle.get(IdleCause.DATA_WAIT, 0.0) == pytest.approx(data)
    assert found.idle.get(IdleCause.HOST_LATE, 0.0) == pytest.approx(late)


@pytest.mark.parametrize(
    ("mean_s", "waited_ms", "queued", "floor"),
    [
        pytest.param(0.080, 0, 2, 1.0, id="never-waits"),
        pytest.param(0.080, 100, 2, 0.75, id="waits-for-20-ms-of-80"),
        pytest.param(0.080, 0, 90, 1.0, id="launches-quickly-and-works-on-something-else"),
        pytest.param(0.080, 0, 1024, 0.0, id="waits-for-room-to-launch"),
        pytest.param(0.062, 0, 2, 0.0, id="is-late-under-the-profiler-alone"),
        pytest.param(0.130, 0, 2, 0.77, id="other-steps-are-longer"),
    ],
)
def test_a_host_that_is_late_leaves_its_own_time_however_short_the_kernels_are(
    mean_s: float, waited_ms: float, queued: int, floor: float
) -> None:
    """Five profiled steps of 100 ms, in which the device computes for 60 ms."""
    launched = replace(launches(queue=queued / 4), queue_max=queued)
    blocking = (wait(ms=waited_ms),) if waited_ms else ()
    found = unprofiled(rank(launches=launched, blocking=blocking), facts.step(forward=mean_s * 1e3))
    assert found is not None
    assert found.host_floor == pytest.approx(floor, abs=0.005)


GPU_RUN = [{"event": "device", "name": "Tesla V100-SXM2-16GB", "backend": "cuda"}]
STEPS = rows([update(100, data_wait=30, forward=40, backward=20, process_cpu_ns=60 * MS)] * 300)


def test_what_the_timers_call_computing_is_the_host_where_the_device_idles() -> None:
    """Of 100 ms, 30 wait for data and 60 launch; the window says that the device computes for 45."""
    run = records(STEPS, None, GPU_RUN)
    window = rank(tuple(step(number, compute=45.0) for number in range(3, 8)))
    told = report(run, no_source, {"plain": window})
    assert told.diagnosis.classes[Bottleneck.COMPUTE] == pytest.approx(0.45, abs=0.01)
    assert told.diagnosis.classes[Bottleneck.DATA] == pytest.approx(0.30, abs=0.01)
    assert told.diagnosis.classes[Bottleneck.HOST] == pytest.approx(0.25, abs=0.01)
    assert told.window is not None
    assert told.window.on_device


def test_tips_of_the_device_judge_a_run_with_a_window() -> None:
    told = report(records(STEPS, None, GPU_RUN), no_source, {"plain": rank()})
    reasons = {entry.id: entry.because for entry in told.not_judged}
    assert reasons["misaligned-shapes"] == NO_SHAPES.reason
    assert "no-mixed-precision" not in reasons


def test_notes_on_windows_that_could_not_be_read_reach_the_reader() -> None:
    told = report(records(STEPS), no_source, {}, ["a window could not be read"])
    assert "a window could not be read" in all_worded(told.notes)


def test_a_wait_is_told_by_its_line_where_the_window_knows_only_the_function() -> None:
    source = source_of(
        train="def main():\n    for x in data:\n        loss = step(x)\n        total += loss.item()\n"
    )
    call = replace(wait(ms=100, idle=80), at=Location("/home/me/train.py", 1, "main"))
    told = report(records(STEPS, None, GPU_RUN), source, {"plain": rank(), "stacks": rank(blocking=(call,))})
    (found,) = (finding for finding in told.findings if finding.id == "device-sync-in-loop")
    assert [(at.line, at.text) for at in found.advice.at] == [(4, "total += loss.item()")]
    assert found.advice.because[-1] == (
        "aten::item at line 4 (`total += loss.item()`): 20.00 ms of waiting a step, then 16.00 ms idle"
    )


def test_round_trips_are_told_by_the_window_that_time_is_charged_by() -> None:
    plain, shapes = (
        rank(
            (step(1, compute=40),) * steps,
            round_trips=(round_trip(idle=idle, count=steps),),
            copies=(copy("DtoH", "pageable", 5.0),),
        )
        for steps, idle in ((4, 40), (3, 60))
    )
    groups = groups_of({"plain": plain, "shapes": shapes}, facts.step(forward=100), True)
    copies, device = groups[CopyFacts], groups[DeviceFacts]
    assert isinstance(copies, CopyFacts)
    assert isinstance(device, DeviceFacts)
    seen = copies.round_trips
    assert seen.judged_steps == 4
    assert seen.per_us * seen.trips[0].idle_us == pytest.approx(device.away)

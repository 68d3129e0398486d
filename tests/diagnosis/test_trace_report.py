from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfdoctor.diagnosis import matrix_sizes, trace_report
from perfdoctor.model.concluded import Bottleneck, Confidence, Verdict
from perfdoctor.model.note import Note
from perfdoctor.render.notes import all_worded, worded
from perfdoctor.trace.lost import LOST
from perfdoctor.trace.parse.columns import Skipped
from perfdoctor.trace.results import Collectives, IdleCause
from tests.support.rank_traces import copy, host_only, kernel, matrix, rank, step, unmarked, use, wait

# Products in 16 bits: nothing large is to be gained from computing.
NARROW = (
    kernel("gemm", "matmul", 200, dtype="float16", tensor=True),
    kernel("vectorized", "pointwise", 100, dtype="float16"),
)

GEMM = (kernel("gemm", "matmul", 400, dtype="float16", tensor=True),)
ALIGNED = matrix(4096, 4096, 4096, 400, multiple=64)


def steps(count=5, **given):
    return tuple(step(number, **given) for number in range(3, 3 + count))


def judged(*ranks):
    return trace_report.report(ranks or (rank(),))


WAITING = [
    pytest.param({"idle": {"data_wait": 35}}, Bottleneck.DATA, id="inside-dataloader"),
    pytest.param({"idle": {"copy": 35}}, Bottleneck.TRANSFER, id="inside-a-blocking-copy"),
    pytest.param({"idle": {"sync": 35}}, Bottleneck.HOST, id="behind-a-sync"),
    pytest.param({"idle": {"host_late": 35}}, Bottleneck.HOST, id="host-late"),
    pytest.param({"idle": {"other_rank": 35}}, Bottleneck.NETWORK, id="another-rank"),
    pytest.param({"compute": 40, "copy": 35, "idle": {"host_late": 25}}, Bottleneck.TRANSFER, id="copies"),
    pytest.param({"compute": 40, "comm": 35, "idle": {"host_late": 25}}, Bottleneck.NETWORK, id="exposed"),
]


@pytest.mark.parametrize(("given", "kind"), WAITING)
def test_each_second_goes_to_the_class_that_caused_it(given, kind):
    trace = rank(steps(**given), copies=(copy("HtoD", "pinned", 1),))
    classes = judged(trace).diagnosis.classes
    assert classes[kind] >= 0.35
    assert sum(classes.values()) == pytest.approx(1.0)


def test_a_device_that_waits_for_batches_is_a_data_verdict_with_its_ceiling():
    found = judged(rank(steps(idle={"data_wait": 38}), kernels=NARROW)).diagnosis
    assert found.verdict is Verdict.DATA
    assert found.share == pytest.approx(0.38)
    assert found.bound == pytest.approx(1 / 0.62)
    assert found.confidence is Confidence.HIGH
    assert found.because[0] == "of 5 steps: compute 60%, data 38%, host 2%"


def test_a_busy_device_that_nothing_is_found_against_is_healthy():
    busy = rank(steps(compute=97), kernels=GEMM, matrices=(ALIGNED,))
    found = judged(busy).diagnosis
    assert found.verdict is Verdict.HEALTHY
    assert found.confidence is Confidence.HIGH
    assert not any("misaligned-shapes" in why for why in found.because)


def test_a_trace_without_shapes_is_not_called_healthy_without_saying_what_was_not_judged():
    found = judged(rank(steps(compute=97), kernels=GEMM, notes=(Note("no-shapes"),)))
    assert found.diagnosis.verdict is Verdict.HEALTHY
    assert found.diagnosis.confidence is Confidence.MEDIUM
    (why,) = (why for why in found.diagnosis.because if "misaligned-shapes" in why)
    assert why.startswith("misaligned-shapes could not be judged in ")
    assert "shapes are missing of the matrix products there (record_shapes=True)" in why
    reasons = {entry.id: entry.because for entry in found.not_judged}
    assert reasons["misaligned-shapes"] == matrix_sizes.NO_SHAPES.reason


def test_of_products_some_of_which_have_shapes_the_others_are_not_judged():
    some = replace(ALIGNED, us=ALIGNED.us / 2)
    found = judged(rank(steps(compute=97), kernels=GEMM, matrices=(some,))).diagnosis
    assert any("misaligned-shapes could not be judged in " in why for why in found.because)


@pytest.mark.parametrize(
    "kernels",
    [
        pytest.param((kernel("conv", "convolution", 400, dtype="float16", tensor=True),), id="no-products"),
        pytest.param((kernel("sgemm", "matmul", 400, dtype="float32"),), id="any-size-is-fast"),
    ],
)
def test_where_sizes_would_not_matter_nothing_is_said_of_them(kernels):
    found = judged(rank(steps(compute=97), kernels=kernels, peak=None, notes=(Note("no-shapes"),)))
    assert not any("misaligned-shapes" in why for why in found.diagnosis.because)


def test_shapes_that_were_recorded_are_not_asked_for_where_no_products_ran():
    convolved = rank(steps(compute=97), kernels=GEMM, classes=(use("convolution", 400),))
    assert "misaligned-shapes" not in {entry.id for entry in judged(convolved).not_judged}
    reasons = {entry.id: entry.because for entry in judged(rank(steps(compute=97))).not_judged}
    assert reasons["misaligned-shapes"] == matrix_sizes.NO_SIZES.reason


def test_wide_products_on_a_device_with_fast_narrow_ones_are_a_compute_verdict():
    found = judged(rank(steps(compute=97)))
    assert found.diagnosis.verdict is Verdict.COMPUTE
    assert found.findings[0].id == "no-mixed-precision"


def test_kernels_in_double_precision_are_found_without_the_model():
    wide = kernel("d884gemm", "matmul", 480, dtype="float64")
    found = judged(rank(steps(compute=97), kernels=(wide,)))
    assert found.diagnosis.verdict is Verdict.COMPUTE
    assert found.findings[0].id == "accidental-float64"


def test_a_host_verdict_says_that_profiling_slows_the_host_and_is_never_sure():
    found = judged(rank(steps(10, idle={"host_late": 40}), kernels=NARROW)).diagnosis
    assert found.verdict is Verdict.HOST
    assert found.confidence is Confidence.MEDIUM
    assert any("profiling slows the host" in reason for reason in found.because)


def test_what_profiling_likely_cost_the_host_is_taken_off_before_it_is_blamed():
    found = judged(rank(steps(compute=50, idle={"data_wait": 22, "host_late": 28}), kernels=NARROW)).diagnosis
    assert found.verdict is Verdict.DATA
    assert found.confidence is Confidence.MEDIUM
    assert "its share is likely smaller" in found.because[-1]


def test_the_ceiling_of_a_compute_verdict_is_what_its_findings_can_remove():
    found = judged(rank(steps(compute=97)))
    highest = max(finding.gain.high for finding in found.findings)
    assert found.diagnosis.bound == highest


def test_idle_time_without_launches_is_no_verdict_against_the_host():
    found = judged(rank(steps(idle={"unknown": 40}), launches=None, runtime_us={}, kernels=NARROW)).diagnosis
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "nothing in the trace explains it" in found.because[0]


@pytest.mark.parametrize(("kind", "why"), [("copy", "ran no kernel, only copies"), ("matmul", "no launches")])
def test_launches_that_are_not_known_are_told_from_kernels_that_never_were(kind, why):
    found = judged(
        rank(launches=None, kernels=(kernel("Memset (Device)", "memset", 9), kernel("k", kind, 90)))
    )
    assert any(why in entry.because for entry in found.not_judged)


def test_one_rank_cannot_tell_moving_from_waiting_for_another():
    exposed = rank(steps(compute=30, comm=50, idle={"host_late": 20}))
    found = judged(exposed).diagnosis
    assert found.verdict is Verdict.NETWORK
    assert found.confidence is Confidence.MEDIUM
    assert "by itself cannot tell" in found.because[-1]


def test_of_ranks_that_cannot_be_matched_the_one_that_communicates_least_is_judged():
    waits = rank(steps(compute=40, comm=50, idle={"host_late": 10}), rank=0)
    late = replace(rank(steps(compute=85, comm=5)), rank=1, file="rank1.json")
    found = judged(waits, late)
    assert found.judged.rank == 1
    assert found.diagnosis.classes[Bottleneck.NETWORK] == pytest.approx(0.05)
    assert "rank 1, which communicates least: collectives of the ranks do not match" in worded(found.notes[0])


def test_a_file_without_its_device_or_with_fewer_steps_is_not_the_one_that_is_judged():
    good = rank(steps(compute=40, comm=50, idle={"host_late": 10}), rank=0)
    better = replace(rank(steps(compute=40, comm=48, idle={"host_late": 12})), rank=1, file="rank1.json")
    short = replace(rank(steps(2, compute=40, comm=50, idle={"host_late": 10})), rank=2, file="rank2.json")
    broken = replace(host_only(), rank=3, file="rank3.json")
    found = judged(good, better, short, broken)
    assert found.judged.rank == 1
    assert found.diagnosis.confidence is not Confidence.HIGH


def test_without_a_device_time_inside_dataloader_is_data_and_inside_operators_compute():
    found = judged(host_only(data=40, ops=50)).diagnosis
    assert found.verdict is Verdict.DATA
    assert found.classes[Bottleneck.COMPUTE] == pytest.approx(0.5)
    assert found.classes[Bottleneck.HOST] == pytest.approx(0.1)
    assert found.confidence is Confidence.MEDIUM


def test_few_steps_lower_the_confidence_and_no_steps_keep_it_from_high():
    assert judged(rank(steps(2, idle={"data_wait": 40}))).diagnosis.confidence is Confidence.LOW
    found = judged(unmarked(steps=steps(idle={"data_wait": 40}), kernels=NARROW))
    assert found.diagnosis.verdict is Verdict.DATA
    assert found.diagnosis.confidence is Confidence.MEDIUM
    assert any("the trace has no step marks" in note for note in all_worded(found.notes))


def test_a_handful_of_events_is_no_training_step():
    found = judged(rank(steps(1), device_events=1)).diagnosis
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.because[0] == "the trace holds only 1 event on the device"
    assert judged(rank(steps(2, compute=97), device_events=1)).findings == ()
    assert judged(rank(steps(5, compute=97), device_events=9)).findings


def test_a_file_with_lost_events_is_judged_with_low_confidence():
    cut = rank(steps(idle={"data_wait": 40}), skipped=Skipped(1_000, 3, "cut"))
    assert judged(cut).diagnosis.confidence is Confidence.LOW


def test_a_trace_that_covers_no_time_has_no_verdict():
    nothing = replace(host_only(), steps=(), end_ns=0, ops=())
    found = judged(nothing)
    assert found.diagnosis.verdict is Verdict.INCONCLUSIVE
    assert found.findings == ()


def test_a_first_step_that_was_left_out_is_named():
    found = judged(rank((step(1, span=400), *steps())))
    assert any("ProfilerStep#1 took much longer" in note for note in all_worded(found.notes))


def test_tips_that_need_a_run_or_a_device_say_so():
    on_device = {entry.id: entry.because for entry in judged().not_judged}
    assert on_device["too-few-workers"] == trace_report.ONLY_A_RUN_TELLS
    assert "no-mixed-precision" not in on_device
    without = {entry.id: entry.because for entry in judged(host_only()).not_judged}
    assert without["no-mixed-precision"] == trace_report.NO_DEVICE


def test_what_the_trace_lacks_is_the_reason_why_a_tip_is_not_judged():
    bare = rank(launches=None, runtime_us={}, peak=None)
    reasons = {entry.id: entry.because for entry in judged(bare).not_judged}
    assert "no launches" in reasons["interpreter-bound"]
    assert "not known" in reasons["no-mixed-precision"]
    assert "record_shapes" in reasons["misaligned-shapes"]
    assert "runtime" in reasons["device-sync-in-loop"]


def test_findings_carry_the_line_where_the_host_waits():
    syncing = rank(steps(idle={"sync": 30}), blocking=(wait(ms=150, idle=150, line=12),))
    found = judged(syncing)
    finding = next(finding for finding in found.findings if finding.id == "device-sync-in-loop")
    assert finding.advice.at[0].line == 12
    assert finding.gain.likely <= found.diagnosis.bounds[Bottleneck.HOST]


US = st.floats(0, 1e5)


@given(
    st.lists(
        st.tuples(US, US, US, st.dictionaries(st.sampled_from(list(IdleCause)), US, max_size=3)), max_size=6
    ),
    st.booleans(),
)
def test_shares_are_shares_whatever_was_measured(parts, marked):
    made = tuple(
        step(
            number,
            span=compute + comm + moved + sum(idle.values()),
            compute=compute,
            comm=comm,
            copy=moved,
            idle={cause.value: us for cause, us in idle.items()},
        )
        for number, (compute, comm, moved, idle) in enumerate(parts)
    )
    trace = rank(made, classes=(use("matmul", 10),)) if made else rank()
    found = trace_report.report((trace if marked else replace(trace, steps=()),)).diagnosis
    assert 0 <= found.share <= 1
    assert sum(found.classes.values()) == pytest.approx(1.0) or not any(found.classes.values())
    assert all(1 <= ceiling <= 100 for ceiling in found.bounds.values())


def entered(*ms):
    """Collectives of these durations."""
    return Collectives(("allreduce",) * len(ms), tuple(1e3 * each for each in ms))


def late_and_waiting():
    """Rank 1 computes longer, so rank 0 waits inside five collectives."""
    waits = rank(steps(compute=40, comm=50, idle={"host_late": 10}), rank=0, collectives=entered(*[50] * 5))
    late = rank(steps(compute=85, comm=5), rank=1, file="rank1.json", collectives=entered(*[5] * 5))
    return waits, late


def test_a_rank_that_is_always_late_is_found_and_charged_to_what_makes_it_late():
    found = judged(*late_and_waiting())
    assert found.judged.rank == 1
    assert found.together.late == 1
    finding = next(finding for finding in found.findings if finding.id == "straggler-rank")
    assert finding.bottleneck is Bottleneck.COMPUTE
    assert finding.advice.because[0] == "rank 1 is the last of 2 to start 5 of 5 collectives"
    assert finding.gain.likely == pytest.approx(1 / 0.55, rel=0.01)


def test_what_a_rank_waits_inside_collectives_is_told_apart_from_moving_bytes():
    waits, late = late_and_waiting()
    shorter = replace(late, collectives=entered(5, 5, 5, 5, 6), rank=1)
    mixed = replace(waits, collectives=entered(50, 50, 50, 50, 5), rank=0)
    found = judged(mixed, shorter)
    assert found.judged.rank == 1
    assert 0 < found.device.idle[IdleCause.OTHER_RANK] < 0.05
    assert found.device.exposed_comm < 0.05


def test_ranks_whose_collectives_cannot_be_matched_are_judged_all_the_same():
    waits, late = late_and_waiting()
    found = judged(waits, replace(late, collectives=entered(5)))
    assert found.together is None
    assert found.judged.rank == 1


@pytest.mark.parametrize("why", LOST)
def test_a_trace_that_lost_the_devices_work_has_no_verdict(why):
    lost = replace(host_only(ops=90), notes=(Note("no-shapes"), why))
    found = judged(lost).diagnosis
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.because[0] == why


def test_one_step_that_decides_what_all_show_is_named():
    odd = (*steps(7), step(20, span=900, idle={"host_late": 840}))
    assert any("ProfilerStep#20 alone takes 56%" in why for why in judged(rank(odd)).diagnosis.because)
    assert not any("alone takes" in why for why in judged(rank(steps(3))).diagnosis.because)


def test_busy_devices_of_one_process_hide_each_others_waiting():
    found = judged(rank(steps(compute=97), devices=(0, 1))).diagnosis
    assert found.confidence is Confidence.MEDIUM
    assert any("2 devices worked" in why for why in found.because)


def test_idle_time_of_unknown_cause_is_not_half_of_a_verdict_either():
    found = judged(rank(steps(compute=50, idle={"unknown": 50}), kernels=(), classes=())).diagnosis
    assert found.verdict is Verdict.INCONCLUSIVE


def test_a_healthy_trace_with_some_waits_for_data_sends_to_a_run():
    plain = (kernel("gemm", "matmul", 400, dtype="float16", tensor=True),)
    found = judged(rank(steps(compute=90, idle={"data_wait": 10}), kernels=plain)).diagnosis
    assert found.verdict is Verdict.HEALTHY
    assert any("perfdoctor run does" in why for why in found.because)


def test_ranks_that_never_wait_for_each_other_are_said_not_to():
    alike = Collectives(("ncclDevKernel_AllReduce",), (5.0,))
    found = judged(*(rank(steps(compute=50, comm=5), rank=number, collectives=alike) for number in range(2)))
    assert worded(found.notes[0]) == "verdict and findings are for rank 0, no rank waits for another"


def test_traces_of_the_cpu_name_nobody_that_the_others_wait_for():
    found = judged(*(replace(host_only(), rank=number) for number in range(2)))
    assert worded(found.notes[0]) == (
        "verdict and findings are for rank 0, the first: traces of the CPU alone do not show who waits for whom"
    )


def test_files_without_communication_may_be_no_ranks():
    found = judged(*(rank(steps(), rank=None, file=f"{number}.json") for number in range(2)))
    assert "may not be the ranks of one job" in worded(found.notes[0])


def test_a_last_step_in_which_nothing_was_done_is_not_judged():
    done, over = steps(5, idle={"data_wait": 10}), replace(step(8, span=500, data=480), begun=0)
    found = judged(rank((*done, over), kernels=NARROW))
    assert found.diagnosis.because[0].startswith("of 5 steps")
    assert "ProfilerStep#8, the last one, ran no operator and was left out: the loop had ended" in all_worded(
        found.notes
    )


def test_a_healthy_trace_has_no_finding_that_brings_more_than_nothing():
    waits = wait(ms=5 * 80, idle=5 * 17, count=50)
    found = judged(rank(steps(5, compute=82, idle={"sync": 17}), kernels=NARROW, blocking=(waits,)))
    first = found.findings[0]
    assert (first.id, first.gain.likely > 1.1) == ("device-sync-in-loop", True)
    assert found.diagnosis.verdict is Verdict.HOST


def test_a_pause_that_decides_what_a_trace_without_steps_shows_leaves_little_confidence():
    found = judged(replace(unmarked(), pause_us=200_000.0)).diagnosis
    assert any("one pause of 200 ms takes 40% of the time" in why for why in found.because)
    assert found.confidence is Confidence.LOW
    marked = judged(replace(rank(steps(7)), pause_us=400_000.0)).diagnosis
    assert not any("one pause" in why for why in marked.because)


def test_several_processes_in_one_file_leave_little_confidence():
    merged = replace(rank(steps(7)), notes=(Note("several-processes", {"processes": 8}),))
    assert judged(rank(steps(7))).diagnosis.confidence is not Confidence.LOW
    assert judged(merged).diagnosis.confidence is Confidence.LOW


@pytest.mark.parametrize(("name", "trains"), [("aten::_foreach_copy_", False), ("aten::_foreach_add_", True)])
def test_copying_lists_of_tensors_is_no_training(name, trains):
    traced = rank(steps(7))
    assert judged(replace(traced, ops=(replace(traced.ops[0], name=name),))).trains is trains


def test_computing_beside_a_device_that_does_nothing_is_not_healthy():
    beside = replace(host_only(ops=99), notes=(Note("device-unused"),))
    assert judged(host_only(ops=99)).diagnosis.verdict is Verdict.HEALTHY
    found = judged(beside).diagnosis
    assert found.verdict is Verdict.COMPUTE
    assert any("nothing ran on the device that the profiler watched" in why for why in found.because)
    waiting = judged(replace(host_only(data=60, ops=30), notes=(Note("device-unused"),))).diagnosis
    assert waiting.verdict is Verdict.DATA


def test_operators_that_take_no_time_tell_nothing_of_the_host():
    found = judged(replace(host_only(ops=0), dataloader_us=0.0)).diagnosis
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.because[0] == "the operators in the trace take no time"

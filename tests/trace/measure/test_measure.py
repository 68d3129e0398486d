from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.render.notes import worded
from perfdoctor.trace.lost import CUT_OFF, INVALID, UNKNOWN_KIND, UNREAD, UNRECORDED, lost_work
from perfdoctor.trace.measure.measure import measure
from perfdoctor.trace.parse.columns import UNKNOWN, DeviceProperties, Skipped
from tests.support.traces import Recording


def test_a_trace_of_the_cpu_has_no_times_of_a_device() -> None:
    made = Recording()
    made.mark("ProfilerStep#1", 0, 50)
    made.op("aten::mm", 3, 9)
    found = measure(made.trace())
    assert (found.times, found.window, found.launches, found.device) == (None, None, None, None)
    assert (found.idle_us, found.streams, found.classes) == ({}, (), ())
    assert (found.steps[0].times.span_us, found.steps[0].idle_us) == (50.0, {})
    assert (found.begin_ns, found.end_ns) == (0, 50_000)
    assert "trace of the CPU" in worded(found.notes[0])


@pytest.mark.parametrize("launch", ["cudaLaunchKernel", "hipExtModuleLaunchKernel", "urEnqueueKernelLaunch"])
def test_launches_without_any_kernel_are_no_idle_device(launch: str) -> None:
    made = Recording()
    made.call(launch, 0, 1, correlation=1)
    made.call("cudaMemcpyAsync", 2, 3, correlation=2)
    made.copy("Memcpy HtoD (Pinned -> Device)", 5, 6, correlation=2)
    found = measure(made.trace())
    assert (found.times, found.idle_us) == (None, {})
    assert "none recorded" in worded(found.notes[0])


V100 = (DeviceProperties(0, "Tesla V100"),)


def test_of_a_cut_file_nobody_can_tell_whether_the_device_it_describes_worked() -> None:
    made = Recording(devices=V100)
    made.mark("ProfilerStep#1", 0, 50)
    made.op("aten::mm", 3, 9)
    cut = Skipped(because="the file ends before its list of events", is_cut=True)
    assert lost_work(measure(made.trace(skipped=cut))) == CUT_OFF
    assert lost_work(measure(made.trace(skipped=cut, devices=()))) is None
    assert lost_work(measure(made.trace())) is None  # recorded without the device's work
    made.copy("Memcpy HtoD (Pinned -> Device)", 5, 6)
    assert lost_work(measure(made.trace(skipped=cut))) is None
    made.call("cudaLaunchKernel", 7, 8, correlation=1)
    assert lost_work(measure(made.trace(skipped=cut))) == CUT_OFF


def test_kernels_that_cannot_be_read_were_recorded_all_the_same() -> None:
    made = Recording(devices=V100)
    made.op("aten::mm", 3, 9)
    damaged = Skipped(because="2 events could not be read", events=2, device_events=2)
    assert lost_work(measure(made.trace(skipped=damaged))) == UNREAD
    made.call("cudaLaunchKernel", 7, 8, correlation=1)
    assert lost_work(measure(made.trace(skipped=damaged))) == UNREAD
    assert lost_work(measure(made.trace(skipped=replace(damaged, device_events=0)))) == INVALID
    made.kernel("gemm", 9, 10)
    assert lost_work(measure(made.trace(skipped=damaged))) is None


@pytest.mark.parametrize(
    "name",
    ["aten::cudnn_convolution", "aten::_cudnn_rnn", "aten::miopen_batch_norm", "triton_poi_fused_add_0"],
)
def test_operators_that_only_devices_have_tell_of_one_that_was_not_recorded(name: str) -> None:
    made = Recording()
    made.op(name, 3, 9)
    assert lost_work(measure(made.trace())) == UNRECORDED


def test_collectives_and_memory_of_a_device_tell_of_one_that_was_not_recorded() -> None:
    of_nccl, of_gloo, with_memory = Recording(), Recording(), Recording()
    of_nccl.mark("nccl:all_reduce", 3, 9)
    of_gloo.mark("gloo:all_reduce", 3, 9)
    of_gloo.memory(4, on_device=False, device=UNKNOWN)
    with_memory.op("aten::mm", 3, 9)
    with_memory.memory(4)
    assert lost_work(measure(of_nccl.trace())) == lost_work(measure(with_memory.trace())) == UNRECORDED
    assert lost_work(measure(of_gloo.trace())) is None


@pytest.mark.parametrize("name", ["aten::cudnn_is_acceptable", "aten::_use_cudnn_ctc_loss", "aten::mm"])
def test_operators_of_the_cpu_tell_of_no_device(name: str) -> None:
    made = Recording()
    made.op(name, 3, 9)
    assert lost_work(measure(made.trace())) is None


def test_work_of_a_device_of_a_kind_that_is_not_known_is_missing() -> None:
    made = Recording()
    made.op("aten::mm", 3, 9)
    assert lost_work(measure(made.trace(unknown=("my_marks",)))) is None, "nothing drives a device"
    made.call("runFunction - job_prep_and_submit_for_execution", 4, 5, correlation=1)
    assert lost_work(measure(made.trace(unknown=("mtia_ccp_events",)))) == UNKNOWN_KIND


def test_what_the_profiler_waits_for_at_its_end_is_no_time_of_the_script() -> None:
    made = Recording()
    made.mark("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 3)
    made.op("aten::mm", 3, 9)
    made.call("cudaDeviceSynchronize", 10, 900)
    made.function("torch/profiler/profiler.py(1): stop", 9, 910)
    found = measure(made.trace())
    assert (found.begin_ns, found.end_ns) == (0, 10_000)
    assert "nothing ran on the device" in worded(found.notes[0])


@pytest.mark.parametrize(
    ("threads", "several"), [([("1", "1"), ("1", "2")], False), ([("1", "1"), ("2", "1")], True)]
)
def test_operators_of_several_processes_are_told(threads: list[tuple[str, str]], several: bool) -> None:
    made = Recording()
    made.op("aten::mm", 3, 9)
    made.op("aten::mm", 3, 9, thread="other")
    told = [worded(note) for note in measure(made.trace(threads=threads)).notes]
    assert any("operators of 2 processes" in note for note in told) is several


def test_the_longest_pause_is_the_devices_or_without_one_the_operators_and_the_loaders() -> None:
    made = Recording()
    made.op("aten::mm", 0, 9)
    made.mark("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 12, 30)
    made.op("aten::mm", 40, 50)
    assert measure(made.trace()).pause_us == 10.0
    for begin in (0, 100, 130):
        made.launched("gemm", begin, begin, begin + 20)
    assert measure(made.trace()).pause_us == 80.0


def test_a_function_of_the_host_in_a_stream_is_no_kernel_that_is_missing() -> None:
    made = Recording()
    made.call("cudaLaunchHostFunc", 0, 1)
    made.memset(5, 6)
    assert measure(made.trace()).times is not None


def test_copies_alone_are_a_valid_trace() -> None:
    made = Recording()
    made.call("cudaMemcpyAsync", 2, 3, correlation=2)
    made.copy("Memcpy HtoD (Pinned -> Device)", 5, 6, correlation=2)
    found = measure(made.trace())
    assert found.times is not None
    assert found.times.busy_us == 1.0


def test_the_window_reaches_from_the_first_step_to_the_last() -> None:
    made = Recording()
    made.launched("a", 0, 1, 5)
    made.mark("ProfilerStep#1", 10, 30)
    made.launched("b", 12, 20, 25)
    made.mark("ProfilerStep#2", 30, 60)
    found = measure(made.trace())
    assert found.window is not None
    assert (found.window.span_us, found.window.busy_us) == (50.0, 5.0)


def test_the_device_is_the_one_that_ran_most() -> None:
    made = Recording(devices=(DeviceProperties(0, "NVIDIA L4"), DeviceProperties(1, "NVIDIA A10")))
    made.kernel("a", 0, 1, device=1)
    made.kernel("b", 1, 2, device=1)
    made.kernel("c", 1, 2, device=0)
    found = measure(made.trace())
    assert (found.device, found.devices) == ("NVIDIA A10", (0, 1))
    assert found.peak is not None


def test_devices_that_are_all_alike_need_not_be_told_apart() -> None:
    made = Recording(devices=(DeviceProperties(0, "NVIDIA L4"),))
    made.kernel("a", 0, 1, device=3)
    assert measure(made.trace()).device == "NVIDIA L4"


def test_runtime_calls_are_counted_longest_first() -> None:
    made = Recording()
    made.call("cudaMalloc", 0, 2)
    made.call("cudaLaunchKernel", 3, 8)
    made.call("cudaMalloc", 9, 10)
    assert list(measure(made.trace()).runtime_us.items()) == [
        ("cudaLaunchKernel", (1, 5.0)), ("cudaMalloc", (2, 3.0)),
    ]  # fmt: skip


def test_waiting_calls_of_any_thread_are_added_up() -> None:
    made = Recording()
    made.call("cudaStreamSynchronize", 0, 2)
    made.call("hipDeviceSynchronize", 3, 8, thread="other")
    made.call("cudaFree", 9, 10)
    assert measure(made.trace()).sync_us == 7.0


@pytest.mark.parametrize("table", ["ops", "calls", "kernels", "nothing"])
def test_a_trace_may_lack_any_kind_of_event(table: str) -> None:
    made = Recording()
    if table == "ops":
        made.op("aten::mm", 0, 5)
    if table == "calls":
        made.call("cudaStreamSynchronize", 0, 5)
    if table == "kernels":
        made.kernel("a", 0, 5)
    found = measure(made.trace())
    assert (found.device_events, len(found.ops), len(found.blocking)) == (
        int(table == "kernels"), int(table == "ops"), int(table == "calls"),
    )  # fmt: skip


def test_a_negative_duration_counts_as_none() -> None:
    made = Recording()
    made.launched("a", 0, 5, 10)
    made.kernel("unended", 20, 8)
    made.op("aten::mm", 30, 10)
    made.op("aten::add", 40, 45)
    found = measure(made.trace())
    assert {kernel.name: kernel.us for kernel in found.kernels} == {"a": 5.0, "unended": 0.0}
    assert min(op.host_us for op in found.ops) == 0.0
    assert found.end_ns == 45_000


def test_time_inside_operators_is_that_of_any_thread_without_loading_data() -> None:
    made = Recording()
    made.mark("ProfilerStep#0", 0, 50)
    made.mark("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 20)
    made.op("aten::stack", 5, 15)
    made.op("aten::linear", 20, 30)
    made.op("aten::addmm", 22, 28)
    made.op("MmBackward0", 25, 35, thread="2")
    found = measure(made.trace())
    assert (found.operators_us, found.steps[0].operators_us) == (15.0, 15.0)


def test_what_passes_between_marked_steps_is_no_calls_fault() -> None:
    made = Recording()
    for begin in (0, 1000):
        made.mark(f"ProfilerStep#{begin}", begin, begin + 20)
        made.launched("a", begin, begin + 2, begin + 10)
        made.call("cudaStreamSynchronize", begin + 4, begin + 11)
    [wait] = measure(made.trace()).blocking
    assert wait.idle_us == 2 * 10.0

from __future__ import annotations

import pytest

from perfdoctor.trace.measure.measure import measure
from perfdoctor.trace.parse.columns import DeviceProperties
from perfdoctor.trace.results import KernelClass, MatrixUse
from tests.support.traces import Recording

GEMM = "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_tn"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)"
BF16 = ("c10::BFloat16", "c10::BFloat16")


def products() -> Recording:
    """Two equal products, of which one took two kernels, and an addition."""
    made = Recording()
    for begin in (0, 50):
        made.op("aten::linear", begin, begin + 10)
        made.op("aten::mm", begin + 1, begin + 9, shapes=((64, 96), (96, 16)), types=BF16)
        made.launched(GEMM, begin + 2, begin + 20, begin + 24)
    made.launched("void splitKreduce_kernel<32, 16, int, float>(P)", 54, 75, 76)
    made.op("aten::add", 80, 89)
    made.launched(ADD, 81, 90, 91)
    return made


def test_a_product_is_one_however_many_kernels_it_takes() -> None:
    (use,) = measure(products().trace()).matrices
    assert use == MatrixUse("aten::mm", 1, 64, 16, 96, "bfloat16", 2, 9.0, 16)


def test_float32_that_a_kernel_multiplies_as_tf32_is_tf32() -> None:
    made, kernels = (
        Recording(),
        ("ampere_sgemm_128x64_nn", "cutlass_80_tensorop_s1688gemm_128x128_16x5_nn_align4"),
    )
    for begin, name in zip((0, 50), kernels, strict=True):
        made.op("aten::mm", begin, begin + 9, shapes=((64, 96), (96, 16)), types=("float", "float"))
        made.launched(name, begin + 2, begin + 20, begin + 24)
    found = measure(made.trace())
    assert sorted((use.dtype, use.count) for use in found.work) == [("float32", 1), ("tf32", 1)]
    assert sorted((use.dtype, use.count) for use in found.matrices) == [("float32", 1), ("tf32", 1)]


def test_a_class_adds_up_its_events_and_what_they_computed() -> None:
    matmul, pointwise = measure(products().trace()).classes
    assert (matmul.kind, matmul.count, matmul.us) == (KernelClass.MATMUL, 3, 9.0)
    assert (matmul.flops, matmul.flops_us) == (2 * 2.0 * 64 * 96 * 16, 9.0)
    assert matmul.bytes == 2 * 2 * (64 * 96 + 96 * 16 + 64 * 16)
    assert matmul.tensor_core_us == 8.0
    assert matmul.dtypes == {"bfloat16": 8.0, "float32": 1.0}
    assert (pointwise.kind, pointwise.us, pointwise.flops) == (KernelClass.POINTWISE, 1.0, None)


def test_operators_get_the_device_time_of_what_they_launched_themselves() -> None:
    ops = {use.name: use for use in measure(products().trace()).ops}
    assert (ops["aten::mm"].device_us, ops["aten::mm"].kernels, ops["aten::mm"].count) == (9.0, 3, 2)
    assert (ops["aten::linear"].device_us, ops["aten::linear"].host_us) == (0.0, 4.0)
    assert next(iter(ops)) == "aten::mm"


def test_a_kernel_is_told_by_name_with_the_operator_that_launched_it() -> None:
    first = measure(products().trace()).kernels[0]
    assert (first.name, first.count, first.us, first.op) == (GEMM, 2, 8.0, "aten::mm")
    assert (first.dtype, first.tensor_core, first.occupancy) == ("bfloat16", True, None)


def test_occupancy_is_weighted_by_duration() -> None:
    made = Recording()
    made.kernel("a", 0, 1, occupancy=0.5)
    made.kernel("a", 1, 4, occupancy=0.1)
    made.kernel("a", 4, 9)
    assert measure(made.trace()).kernels[0].occupancy == pytest.approx(0.2)


def test_what_an_optimizers_step_launches_is_the_optimizers() -> None:
    made = Recording()
    made.mark("Optimizer.step#SGD.step", 0, 10)
    made.launched(ADD, 5, 20, 23)
    made.launched(ADD, 12, 25, 26)
    found = {use.kind: use.us for use in measure(made.trace()).classes}
    assert found == {KernelClass.OPTIMIZER: 3.0, KernelClass.POINTWISE: 1.0}


def test_what_lies_between_the_backward_pass_and_the_update_is_no_models() -> None:
    made = Recording()
    for begin in (0, 100):
        made.launched(ADD, begin + 5, begin + 60, begin + 61)
        made.op(
            "autograd::engine::evaluate_function: MulBackward0", begin + 10, begin + 14, thread="backward"
        )
        made.launched(ADD, begin + 12, begin + 62, begin + 64, thread="backward")
        made.op(
            "autograd::engine::evaluate_function: AddBackward0", begin + 14, begin + 20, thread="backward"
        )
        made.launched(ADD, begin + 22, begin + 64, begin + 68)
        made.mark("Optimizer.step#AdamW.step", begin + 30, begin + 40)
        made.launched(ADD, begin + 32, begin + 68, begin + 76)
        made.launched(ADD, begin + 45, begin + 76, begin + 92)
    found = {use.kind: use.us for use in measure(made.trace()).classes}
    assert found == {
        KernelClass.POINTWISE: 2 * (1.0 + 2.0 + 16.0),
        KernelClass.CLIPPING: 2 * 4.0,
        KernelClass.OPTIMIZER: 2 * 8.0,
    }


def test_copies_and_memsets_move_the_bytes_that_they_say() -> None:
    made = Recording()
    made.copy("Memcpy HtoD (Pinned -> Device)", 0, 4, bytes=4000)
    made.copy("Memcpy HtoD (Pinned -> Device)", 5, 6)
    made.memset(8, 9, bytes=64)
    copy, memset = measure(made.trace()).classes
    assert (copy.bytes, copy.bytes_us, copy.us) == (4000.0, 4.0, 5.0)
    assert (memset.bytes, memset.bytes_us) == (64.0, 1.0)


def test_the_type_of_a_nameless_kernel_is_that_of_the_operators_input() -> None:
    made = Recording()
    made.op("aten::mm", 0, 9, shapes=((4, 4), (4, 4)), types=("c10::Half", "c10::Half"))
    made.launched("matmul_kernel", 2, 10, 12)
    assert measure(made.trace()).kernels[0].dtype == "float16"


def test_what_runs_beside_other_computing_is_measured() -> None:
    made = Recording()
    made.kernel("gemm", 0, 10, stream=7)
    made.kernel("vectorized_elementwise_kernel", 6, 14, stream=8)
    made.kernel("ncclDevKernel_AllReduce", 10, 20, stream=9)
    made.copy("Memcpy DtoD (Device -> Device)", 0, 20, stream=10)
    beside = {use.name: use.beside_us for use in measure(made.trace()).kernels}
    assert beside["gemm"] == beside["vectorized_elementwise_kernel"] == 4.0
    assert beside["ncclDevKernel_AllReduce"] == 0.0


def test_work_is_listed_with_the_shapes_it_was_done_for() -> None:
    made = Recording()
    for begin in (0, 10):
        made.op("aten::mm", begin, begin + 5, shapes=[(4, 8), (8, 2)], types=["float", "float"])
        made.launched("sgemm", begin + 1, begin + 2, begin + 5)
    (use,) = measure(made.trace()).work
    assert (use.op, use.shapes, use.dtype, use.count, use.us) == (
        "aten::mm",
        ((4, 8), (8, 2)),
        "float32",
        2,
        6.0,
    )
    assert use.flops == 2 * 4 * 8 * 2


def test_multiprocessors_without_a_thread_block_are_told_by_duration() -> None:
    made = Recording()
    made.devices = (DeviceProperties(0, "A100", multiprocessors=100),)
    made.kernel("a", 0, 4, blocks=25)
    made.kernel("a", 4, 6, blocks=50)
    made.kernel("a", 6, 9, blocks=400)
    made.kernel("b", 9, 10, blocks=50)
    made.kernel("b", 10, 11)  # a grid that is not recorded
    first, second = measure(made.trace()).kernels
    assert first.unfilled_us == pytest.approx(4 * 0.75 + 2 * 0.5)
    assert second.unfilled_us is None


def test_a_device_that_is_counted_otherwise_is_one_of_its_kind() -> None:
    made = Recording()
    made.devices = (DeviceProperties(0, "MI300X", multiprocessors=304),)
    made.kernel("a", 0, 4, device=2, blocks=152)
    assert measure(made.trace()).kernels[0].unfilled_us == pytest.approx(2.0)


def test_without_the_devices_properties_its_filling_is_not_known() -> None:
    made = Recording()
    made.kernel("a", 0, 4, blocks=152)
    assert measure(made.trace()).kernels[0].unfilled_us is None


def test_what_another_device_computes_is_not_beside_it() -> None:
    made = Recording()
    for number in range(2):
        made.kernel("gemm", 0, 10, device=number)
        made.kernel("vectorized_elementwise_kernel", 8, 14, device=number, stream=8)
    beside = {use.name: use.beside_us for use in measure(made.trace()).kernels}
    assert beside == {"gemm": 4.0, "vectorized_elementwise_kernel": 4.0}

"""What kind of model ran, by its kernels and its convolutions' weights."""

import pytest

from perfdoctor.facts.device.model_kind import computing, grouped_share, model_kind
from perfdoctor.facts.predict.published_gains import MainWork, ModelKind
from perfdoctor.trace.results import KernelClass, WorkUse
from tests.support import facts
from tests.support.rank_traces import kernel

CONVOLUTION = kernel("sm80_xmma_fprop_f16f16", "convolution", 60)
MATMUL = kernel("gemm", "matmul", 20)
REST = kernel("vectorized", "pointwise", 20)


def conv(us, inputs, outputs, width, backward=True, size=3, transposed=False):
    """Calls of one convolution; `width` channels reach each output."""
    spatial = () if size is None else (size,)
    weight = (inputs if transposed else outputs, width, 3, *spatial)
    data, out = (8, inputs, 56, *(() if size is None else (56,))), (8, outputs, 56, 56)
    if backward:
        op, shapes = "aten::convolution_backward", (out, data, weight)
    else:
        op, shapes = "aten::cudnn_convolution", (data, weight, (outputs,))
    return WorkUse(op, KernelClass.CONVOLUTION, shapes, "float16", 10, us, 1.0, 1.0)


def kind(*work):
    return model_kind(facts.kernels(CONVOLUTION, MATMUL, REST, work=work))


def test_convolutions_without_shapes_may_be_anything():
    assert kind() == ModelKind(MainWork.UNSHAPED)
    assert grouped_share(facts.kernels(CONVOLUTION)) == 0.0


@pytest.mark.parametrize("backward", [True, False])
def test_plain_depthwise_and_grouped_convolutions_are_told_by_their_weights(backward):
    plain, deep = conv(50, 64, 128, 64, backward), conv(30, 128, 128, 1, backward)
    grouped = conv(20, 128, 256, 32, backward)
    assert kind(plain) == ModelKind(MainWork.CONVOLUTIONS)
    assert kind(plain, deep) == ModelKind(MainWork.DEPTHWISE)
    assert kind(plain, deep, grouped) == ModelKind(MainWork.GROUPED, pytest.approx(32.0))
    assert grouped_share(facts.kernels(CONVOLUTION, work=(plain, deep, grouped))) == pytest.approx(0.2)


def test_a_few_grouped_ones_make_no_grouped_model():
    assert kind(conv(95, 64, 64, 64), conv(5, 64, 64, 16)) == ModelKind(MainWork.CONVOLUTIONS)


def test_the_mean_width_is_by_time_and_of_logarithms():
    assert kind(conv(30, 64, 64, 8), conv(10, 512, 512, 128)).group_width == pytest.approx(16.0)


def test_a_transposed_convolution_with_fewer_outputs_is_not_a_grouped_one():
    assert kind(conv(50, 256, 128, 128, transposed=True)) == ModelKind(MainWork.CONVOLUTIONS)


def test_convolutions_over_sequences_and_tiny_products_are_small():
    assert kind(conv(50, 64, 64, 64, size=None)) == ModelKind(MainWork.SMALL)
    tiny = kernel("gemm", "matmul", 20, count=5_000)
    assert model_kind(facts.kernels(tiny, REST)) == ModelKind(MainWork.SMALL)


def test_matrix_products_beside_a_few_convolutions_are_the_main_work():
    few = kernel("fprop", "convolution", 10)
    assert model_kind(facts.kernels(few, MATMUL, REST)) == ModelKind(MainWork.MATRICES)
    assert model_kind(facts.kernels(REST)) == ModelKind(None)


def test_copies_and_communication_are_no_computing():
    used = facts.kernels(MATMUL, kernel("ncclAllReduce", "communication", 20), share=0.8)
    assert computing(used) == pytest.approx(0.4)

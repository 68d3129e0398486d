from __future__ import annotations

import warnings

import pytest

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")

from torch.utils._python_dispatch import TorchDispatchMode

from perfdoctor.probe.tensor_elements import elements_of

KINDS = "float64 float32 float16 int64 int32 int16 int8 uint8 bool complex64 complex128".split()


@pytest.mark.parametrize("kind", KINDS)
def test_the_elements_are_those_of_torchs_own_array(kind):
    tensor = torch.arange(24).reshape(2, 3, 4).to(getattr(torch, kind))
    for view in (
        tensor,
        tensor.permute(2, 0, 1)[1:, :, ::2],
        tensor[:, :0],
        tensor[0, 0, 0],
        tensor[:1, :, :1],
    ):
        found, right = elements_of(view), view.numpy()
        assert (found.dtype, found.shape) == (right.dtype, right.shape)
        assert np.array_equal(found, right)
        assert not (found.size and found.flags.writeable)
    row = torch.arange(3).expand(4, 3)
    assert np.array_equal(elements_of(row), row.numpy())


def test_the_tensor_can_be_resized_afterwards():
    tensor = torch.zeros(4)
    assert elements_of(tensor).sum() == 0
    tensor.resize_(10_000)
    tensor.untyped_storage().resize_(0)


def test_the_array_keeps_the_memory():
    assert elements_of(torch.full((1000,), 7.0)).tolist() == [7.0] * 1000


def test_where_the_elements_do_not_lie_as_they_are_there_is_no_array():
    freed = torch.zeros(4)
    freed.untyped_storage().resize_(0)
    cut = torch.zeros(4)
    cut.untyped_storage().resize_(8)
    turned = torch.zeros(2, dtype=torch.complex64).conj()
    for tensor in (freed, cut, turned, turned.imag, torch.zeros(2, dtype=torch.bfloat16)):
        assert elements_of(tensor) is None


def test_of_a_tensor_that_stands_for_another_there_is_no_array():
    found = []

    def look(tensor):
        found.append(elements_of(tensor))
        return tensor

    torch.vmap(look)(torch.zeros(3, 2))
    torch.func.functionalize(look)(torch.zeros(3))
    with warnings.catch_warnings():
        warnings.simplefilter("error", torch.jit.TracerWarning)
        torch.jit.trace(look, torch.zeros(3), check_trace=False)
    assert found == [None] * 3


def test_no_operation_is_seen_by_the_scripts_modes():
    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            raise AssertionError(function)

    tensor = torch.arange(6).reshape(2, 3).T
    with Mode(), torch.device("meta"):
        found = elements_of(tensor)
    assert found.tolist() == [[0, 3], [1, 4], [2, 5]]

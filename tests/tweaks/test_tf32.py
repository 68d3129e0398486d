"""--tf32. There is no such device here: models pretend to be on one, and the settings are looked at."""

from __future__ import annotations

import pytest

from tests.support.applying import applied
from tests.support.surroundings import OnCuda, capable

torch = pytest.importorskip("torch")

from torch import nn


def call(capability: tuple[int, int] = (8, 0)) -> None:
    with capable(capability):
        OnCuda(nn.Linear(2, 2))(torch.ones(1, 2))


def test_products_may_use_tf32_after_the_first_call_on_a_device() -> None:
    with applied("tf32") as told:
        assert torch.get_float32_matmul_precision() == "highest"
        call()
        assert torch.get_float32_matmul_precision() == "high"
        assert torch.backends.cuda.matmul.allow_tf32
    (place,) = told.applied
    assert (place["what"], place["was"], place["now"]) == ("float32 matrix products", "float32", "tf32")
    assert place["at"]["file"] == __file__


def test_convolutions_may_use_it_again() -> None:
    with applied("tf32") as told:
        torch.backends.cudnn.allow_tf32 = False
        call()
        assert torch.backends.cudnn.allow_tf32
    assert [place["what"] for place in told.applied] == ["float32 matrix products", "float32 in cuDNN"]


def test_what_the_script_sets_later_holds() -> None:
    with applied("tf32"):
        call()
        torch.set_float32_matmul_precision("highest")
        call()
        assert torch.get_float32_matmul_precision() == "highest"


@pytest.mark.parametrize("precision", ["high", "medium"])
def test_a_script_that_has_it_on_is_left_alone(precision: str) -> None:
    with applied("tf32") as told:
        torch.set_float32_matmul_precision(precision)
        call()
        assert torch.get_float32_matmul_precision() == precision
    assert not told.applied
    assert [place["because"] for place in told.left_alone] == ["TF32 is already on"]


def test_a_device_before_ampere_is_left_alone() -> None:
    with applied("tf32") as told:
        call((7, 5))
        assert torch.get_float32_matmul_precision() == "highest"
    assert [place["because"] for place in told.left_alone] == ["cuda:0 has no TF32 units"]


def test_the_cpu_is_left_alone() -> None:
    with applied("tf32") as told:
        nn.Linear(2, 2)(torch.ones(1, 2))
        assert torch.get_float32_matmul_precision() == "highest"
    assert [place["because"] for place in told.left_alone] == ["cpu has no TF32 units"]

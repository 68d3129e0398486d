"""--cudnn-benchmark. There is no CUDA device here: models pretend to be on one, and the setting is looked at."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.applying import applied
from tests.support.surroundings import OnCuda

torch = pytest.importorskip("torch")

from torch import nn

CUDNN = torch.backends.cudnn


def call(part: Any = None) -> None:
    OnCuda(part or nn.Conv2d(3, 3, 3))(torch.ones(1, 3, 8, 8))


def reasons(told: Any) -> list[str]:
    assert not told.applied
    return [place["because"] for place in told.left_alone]


def test_it_is_on_after_the_first_call_of_a_model_with_convolutions() -> None:
    with applied("cudnn_benchmark") as told:
        assert not CUDNN.benchmark
        call()
        call()
        assert CUDNN.benchmark
    (place,) = told.applied
    assert (place["what"], place["was"], place["now"]) == ("torch.backends.cudnn.benchmark", False, True)
    assert place["at"]["file"] == __file__
    assert not told.left_alone


def test_a_script_that_has_it_on_is_left_alone() -> None:
    with applied("cudnn_benchmark") as told:
        CUDNN.benchmark = True
        call()
    assert reasons(told) == ["it is already on"]


def test_a_script_that_asks_for_deterministic_algorithms_is_left_alone() -> None:
    with applied("cudnn_benchmark") as told:
        CUDNN.deterministic = True
        call()
        assert not CUDNN.benchmark
    assert reasons(told) == ["the script requires deterministic algorithms"]


def test_a_model_without_convolutions_is_left_alone() -> None:
    with applied("cudnn_benchmark") as told:
        call(nn.Linear(8, 8))
        assert not CUDNN.benchmark
    assert reasons(told) == ["it has no convolution"]


def test_the_cpu_is_left_alone() -> None:
    with applied("cudnn_benchmark") as told:
        nn.Conv2d(3, 3, 3)(torch.ones(1, 3, 8, 8))
        assert not CUDNN.benchmark
    assert reasons(told) == ["cuDNN runs on CUDA devices only"]

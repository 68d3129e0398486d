from __future__ import annotations

import pytest

from perfdoctor.probe.observers.device_errors import kind_of


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU", "no-driver"),
        ("No CUDA GPUs are available", "no-driver"),
        ("No HIP GPUs are available", "no-driver"),
        ("CUDA error: no CUDA-capable device is detected", "no-driver"),
        ("The NVIDIA driver on your system is too old (found version 11040)", "old-driver"),
        ("CUDA driver version is insufficient for CUDA runtime version", "old-driver"),
        ("CUDA error: CUDA-capable device(s) is/are busy or unavailable", "held"),
        ("Unable to determine the device handle for GPU 0000:01:00.0: GPU is lost", "lost"),
        ("mat1 and mat2 shapes cannot be multiplied", None),
        ("the game was lost", None),
    ],
)
def test_an_error_of_a_device_is_told_by_its_words(message: str, kind: str | None) -> None:
    assert kind_of(RuntimeError(message)) == kind


def test_another_kind_of_exception_is_no_devices() -> None:
    assert kind_of(KeyError("No CUDA GPUs are available")) is None

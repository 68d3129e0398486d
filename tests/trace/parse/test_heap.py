"""Asking the C library for favours never fails and changes no result."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from perfdoctor.trace.parse import heap


def test_memory_is_as_usable_before_as_after() -> None:
    heap.keep_freed()
    held = [np.arange(100_000) for _ in range(50)]
    heap.give_back()
    assert all(int(array.sum()) == 4_999_950_000 for array in held)


@pytest.mark.parametrize("error", [OSError, AttributeError, TypeError])
def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch, error: type[Exception]) -> None:
    def refuse(name: object) -> object:
        raise error

    monkeypatch.setattr(ctypes, "CDLL", refuse)
    heap.keep_freed()
    heap.give_back()

"""--gc-freeze: what was there before training is not looked at again by the garbage collector."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from tests.support.applying import applied

torch = pytest.importorskip("torch")
from torch import nn


class Node:
    """Points at itself: only the collector frees it."""

    def __init__(self) -> None:
        self.own = self


class Training:
    def __init__(self) -> None:
        torch.manual_seed(0)
        self.layer = nn.Linear(2, 1)
        self.optimizer = torch.optim.SGD(self.layer.parameters(), 0.1)

    def update(self) -> Any:
        loss = self.layer(torch.randn(4, 2)).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


def trained(steps: int) -> Training:
    training = Training()
    for _ in range(steps):
        training.update()
    return training


def test_what_is_there_after_three_updates_is_frozen() -> None:
    with applied("gc_freeze") as told:
        training = trained(2)
        assert not gc.get_freeze_count()
        training.update()
        assert gc.get_freeze_count()
    (place,) = told.applied
    assert place["was"] > 1_000
    assert place["now"] == 0
    assert place["at"]["function"] == "update"


def test_garbage_is_collected_first_and_what_comes_later_still_is() -> None:
    early = weakref.ref(Node())
    with applied("gc_freeze"):
        trained(3)
        assert early() is None
        late = weakref.ref(Node())
        gc.collect()
        assert late() is None


def test_what_the_script_froze_itself_stays_as_it_is() -> None:
    with applied("gc_freeze") as told:
        gc.freeze()
        count = gc.get_freeze_count()
        trained(4)
        assert gc.get_freeze_count() <= count
    assert not told.applied
    assert "already frozen" in told.left_alone[0]["because"]


def test_collections_go_on_as_often_as_before() -> None:
    thresholds = gc.get_threshold()
    with applied("gc_freeze"):
        trained(4)
        assert gc.isenabled()
        assert gc.get_threshold() == thresholds


def test_losses_are_the_same_to_the_last_bit() -> None:
    def losses() -> list[Any]:
        training = Training()
        return [training.update() for _ in range(50)]

    original = losses()
    with applied("gc_freeze"):
        assert losses() == original

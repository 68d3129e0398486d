from __future__ import annotations

import gc
import sys

import pytest

from perfdoctor.probe.by_identity import ByIdentity
from tests.support.watched import updates, watched


class Equal:
    """Equal to all others of its class, so that none can be hashed."""

    def __eq__(self, other):
        raise AssertionError("code of the script's ran")


def test_equal_objects_are_told_apart_without_being_compared():
    one, other, unknown = Equal(), Equal(), Equal()
    known = ByIdentity()
    known[one] = 1
    known[other] = 2
    known[one] = 3
    assert (known.get(one), known[other], known.get(unknown)) == (3, 2, None)
    assert one in known
    assert unknown not in known
    assert [id(key) for key in known] == [id(one), id(other)]
    assert (len(known), known.values()) == (2, [3, 2])
    with pytest.raises(KeyError):
        known[unknown]


def test_what_is_gone_is_forgotten_by_no_function_written_in_python():
    known = ByIdentity()
    held = Equal()
    known[held] = 1
    seen = []
    gc.disable()  # what a collection calls back is not ours
    sys.setprofile(lambda frame, event, _: seen.append(event))
    del held
    sys.setprofile(None)
    gc.enable()
    assert len(known) == 0
    assert "call" not in seen


@pytest.mark.process
def test_optimizers_and_loaders_that_are_equal_are_told_apart(tmp_path):
    pytest.importorskip("torch")
    script = """
    import torch
    from torch.utils.data import DataLoader
    class Loader(DataLoader):
        def __eq__(self, other):
            return True
    class Optimizer(torch.optim.SGD):
        def __eq__(self, other):
            return True
    weights = [torch.nn.Parameter(torch.ones(3)) for _ in range(2)]
    optimizers = [Optimizer([weight], lr=0.1) for weight in weights]
    loaders = [Loader(torch.ones(32, 3), batch_size=8) for _ in range(2)]
    for loader in loaders:
        for batch in loader:
            for weight, optimizer in zip(weights, optimizers):
                (batch * weight).sum().backward()
                optimizer.step()
    """
    records = watched(tmp_path, script)
    assert sorted(set(updates(records)["optimizer"].tolist())) == [1, 2]
    assert len(records.ranks[0].of("loader")) == 2

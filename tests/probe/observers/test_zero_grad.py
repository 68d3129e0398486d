from __future__ import annotations

import pytest

pytest.importorskip("torch")

from perfdoctor.probe.observers.zero_grad import ZeroFilling
from tests.support.sessions import Session
from tests.support.watched import watched

pytestmark = pytest.mark.process


@pytest.mark.parametrize(
    ("drops", "args", "kwargs", "zeros"),
    [
        (True, (None,), {}, False),
        (True, (None,), {"set_to_none": False}, True),
        (True, (None, False), {}, True),
        (True, (None, True), {}, False),
        (False, (None,), {}, True),
        (False, (None,), {"set_to_none": True}, False),
    ],
)
def test_only_calls_that_ask_for_zeros_are_timed(drops, args, kwargs, zeros):
    zeroing = ZeroFilling(Session(), drops)
    assert (zeroing.before(args, kwargs) is not None) is zeros


def test_nothing_is_timed_before_the_first_row():
    zeroing = ZeroFilling(Session(), False)
    zeroing.session.recorder.written = 0
    assert zeroing.before((None,), {}) is None


def test_calls_of_optimizers_and_modules_are_added_up_with_the_line(tmp_path):
    script = """
    import torch
    net = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(40):
        optimizer.zero_grad(set_to_none=False)
        net.zero_grad(False)
        optimizer.zero_grad()
        net(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    """
    found = watched(tmp_path, script).ranks[0].of("zeroing")[-1]
    assert found["calls"] == 2 * 39  # none before the first row is closed
    assert found["seconds"] > 0
    assert found["at"]["line"] == 6

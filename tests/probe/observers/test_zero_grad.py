from __future__ import annotations

import sys

import pytest

pytest.importorskip("torch")

from perfdoctor.probe.observers.zero_grad import ZeroFilling
from tests.support.sessions import Session
from tests.support.watched import watched

pytestmark = pytest.mark.process


@pytest.mark.parametrize(
    ("drops", "args", "kwargs", "zeros"),
    [
        (True, (), {}, False),
        (True, (), {"set_to_none": False}, True),
        (True, (False,), {}, True),
        (True, (True,), {}, False),
        (False, (), {}, True),
        (False, (), {"set_to_none": True}, False),
    ],
)
def test_only_calls_that_ask_for_zeros_are_timed(drops, args, kwargs, zeros):
    asked = []
    zeroing = ZeroFilling(Session(), drops)
    clear = zeroing.wrapped(lambda self, set_to_none: asked.append((self, set_to_none)))
    clear("optimizer", *args, **kwargs)
    assert asked == [("optimizer", not zeros)]
    assert zeroing.totals["calls"] == zeros


def test_nothing_is_timed_before_the_first_row():
    zeroing = ZeroFilling(Session(), False)
    zeroing.session.recorder.written = 0
    assert zeroing.before((None, False), {}) is None


def test_an_error_inside_shows_no_frame_of_ours():
    def broken(self, set_to_none):
        raise ValueError("the user's")

    for zeros in (True, False):
        with pytest.raises(ValueError, match="the user's") as caught:
            ZeroFilling(Session(), True).wrapped(broken)("optimizer", not zeros)
        if sys.version_info >= (3, 11):
            assert [frame.name for frame in caught.traceback] == [
                "test_an_error_inside_shows_no_frame_of_ours",
                "broken",
            ]


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

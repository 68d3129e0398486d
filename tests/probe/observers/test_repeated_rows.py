"""Modules that are given rows several times are told by their lines."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("numpy")

from perfdoctor.wire.events.repeated_rows import RepeatedRowsEvent, RepeatedRowsLookEvent
from tests.support.watched import watched

pytestmark = pytest.mark.process

SCRIPT = """
    import os
    import torch
    from torch import nn
    torch.set_num_threads(1)
    torch.manual_seed(0)
    class Encoder(nn.Module):
        def __init__(self, p=0.0):
            super().__init__()
            self.first, self.drop, self.second = nn.Linear(48, 512), nn.Dropout(p), nn.Linear(512, 64)
        def forward(self, x):
            wide = torch.relu(self.first(x))  # FIRST
            return self.second(self.drop(wide))  # SECOND
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.head, self.all = Encoder(), nn.Linear(80, 1), nn.Sequential()
        def forward(self, x, y):
            encoded = self.encoder(x)  # ENCODER
            return self.head(torch.cat([encoded, y], 1))
    net = Net()
    def repeated(x): return x.repeat_interleave(4, 0)
    def predicted(): return net(repeated(torch.randn(16, 48)), torch.randn(64, 16))  # NET
    exec(os.environ["CHANGED"])
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-4)
    for step in range(20):
        optimizer.zero_grad()
        predicted().square().mean().backward()
        optimizer.step()
"""
LINES = {
    name: number
    for number, text in enumerate(SCRIPT.splitlines(), 1)
    for name in [text.rpartition("# ")[2]]
    if name.isupper()
}


def seen(tmp_path, changed=""):
    """What was told of the last look, after a look that told which modules are costly."""
    own = watched(tmp_path, SCRIPT, CHANGED=changed).ranks[0]
    looks = own.of(RepeatedRowsLookEvent)
    assert looks[0].look == 2
    assert all(0 <= look.seconds < look.step_s for look in looks)
    return [event for event in own.of(RepeatedRowsEvent) if event.look == looks[-1].look]


def test_the_outermost_call_that_is_given_nothing_else_is_told(tmp_path):
    (event,) = seen(tmp_path)
    assert (event.module, event.at["line"], event.calls) == ("Encoder", LINES["ENCODER"], 1)
    assert (event.rows, event.distinct, event.times, event.together) == (64, 16, 4, True)
    assert (event.by_chance, event.normalised) == (False, False)
    assert event.seconds > 0
    assert event.backward_s > 0
    assert event.operations == 5
    assert event.weight_bytes == 4 * (48 * 512 + 512 + 512 * 64 + 64)


@pytest.mark.slow
def test_a_whole_model_that_is_given_repeated_rows_is_told_itself(tmp_path):
    changed = "predicted = lambda: net(repeated(torch.randn(16, 48)), repeated(torch.randn(16, 16)))"
    (event,) = seen(tmp_path, changed)
    assert (event.module, event.rows, event.distinct) == ("Net", 64, 16)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changed",
    [
        "repeated = lambda x: torch.randn(64, 48)",
        "repeated = lambda x: x[torch.randint(16, (64,))]",
        "net.encoder.eval()",
        "net.encoder.requires_grad_(False)",
        "class T(torch.Tensor): pass\nrepeated = lambda x: x.repeat_interleave(4, 0).as_subclass(T)",
    ],
    ids=["different", "drawn", "eval", "frozen", "subclass"],
)
def test_nothing_is_told_of_others(tmp_path, changed):
    assert seen(tmp_path, changed) == []


@pytest.mark.slow
def test_dropout_is_by_chance_where_rows_come_more_than_twice(tmp_path):
    (event,) = seen(tmp_path, "net.encoder = Encoder(0.1)")
    assert (event.at["line"], event.times, event.by_chance) == (LINES["ENCODER"], 4, True)


@pytest.mark.slow
def test_two_passes_that_differ_by_dropout_may_be_the_point(tmp_path):
    """What comes before the dropout is the same, and told once the whole was looked at."""
    changed = """net.encoder = Encoder(0.1)
repeated = lambda x: torch.cat([x, x, 2 * x, 2 * x])
once = predicted
predicted = lambda: once() + once()
"""
    (event,) = seen(tmp_path, changed)
    assert (event.at["line"], event.distinct / event.rows) == (LINES["FIRST"], 0.5)
    assert not event.by_chance


@pytest.mark.slow
@pytest.mark.parametrize(
    "changed",
    [
        "net.encoder = nn.Sequential(net.encoder, nn.BatchNorm1d(64))",
        """net.encoder = nn.Sequential(net.encoder, nn.BatchNorm1d(64))
repeated = lambda x: x[torch.randint(16, (64,)).sort().values]""",
    ],
    ids=["regular", "ragged"],
)
def test_statistics_of_the_batch_are_the_same_where_all_rows_come_as_often(tmp_path, changed):
    events = seen(tmp_path, changed)
    if "sort" in changed:
        assert not any(event.normalised for event in events)
    else:
        assert [(event.module, event.normalised) for event in events] == [("Sequential", True)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "changed",
    [
        """from torch.overrides import TorchFunctionMode
class Seeing(TorchFunctionMode):
    calls = 0
    def __torch_function__(self, function, types, args=(), kwargs=None):
        Seeing.calls += 1
        return function(*args, **(kwargs or {}))
before, steps, counts = predicted, [], set()
def predicted():
    Seeing.calls = 0
    with Seeing():
        result = before()
    counts.add(Seeing.calls)
    assert len(counts) == 1
    return result""",
        """before, bound = predicted, net.encoder.forward
net.encoder.forward = lambda x: bound(x) + 0 * torch.func.grad(lambda one: bound(one).sum())(x).sum()""",
        "Net.forward = lambda self, x, y: self.head(torch.cat([self.encoder(x=x), y], 1))",
        "given = nn.Linear(48, 48)\nrepeated = lambda x: given(x)[:, None].expand(-1, 4, -1).reshape(64, 48)",
    ],
    ids=["function mode", "torch.func", "keyword", "with gradient"],
)
def test_whatever_else_the_script_does(tmp_path, changed):
    (event,) = seen(tmp_path, changed)
    assert (event.module, event.rows, event.distinct) == ("Encoder", 64, 16)

import gc
import weakref
from types import SimpleNamespace

import pytest

from perfdoctor.probe import patch
from perfdoctor.probe.accelerators import Accelerator
from perfdoctor.probe.moments import Moments
from perfdoctor.probe.steps.losses import SLOTS, DeviceLosses, LossReader


class Scalar:
    """A pinned scalar whose copies arrive when the event behind them is done."""

    def __init__(self):
        self.value = None

    def copy_(self, source, non_blocking):
        assert non_blocking
        self.value = source.value

    def __float__(self):
        return self.value


class Event:
    done = False
    stream = None

    def record(self, stream):
        assert self.stream in (None, stream), "an event belongs to the device where it was recorded first"
        self.stream = stream

    def query(self):
        return Event.done


class Loss:
    def __init__(self, value, device="xpu:0"):
        self.value = value
        self.device = device

    def detach(self):
        return self

    def reshape(self, shape):
        assert shape == ()
        return self


def device(capturing=False):
    """A torch and its accelerator."""
    Event.done = False
    module = SimpleNamespace(
        Event=Event,
        is_current_stream_capturing=lambda: capturing,
        current_stream=lambda device: f"stream of {device}",
    )
    # the CPU's memory, even where torch.set_default_device names another device: only that can be pinned
    pinned = {"dtype": "f4", "device": "cpu", "pin_memory": True}
    torch = SimpleNamespace(
        float32="f4", empty=lambda n, **how: [Scalar() for _ in range(n)] if how == pinned else None
    )
    return torch, Accelerator("xpu", module)


@pytest.mark.shows("guest")
def test_a_loss_reaches_its_row_only_after_the_device_is_done():
    rows = {}
    losses = DeviceLosses(*device(), rows.__setitem__)
    losses.add(Loss(1.5), 7)
    losses.collect()
    assert rows == {}
    Event.done = True
    losses.collect()
    assert rows == {7: 1.5}


@pytest.mark.shows("guest")
def test_with_every_slot_under_way_a_loss_is_left_out_and_nothing_waits():
    rows = {}
    losses = DeviceLosses(*device(), rows.__setitem__)
    for row in range(SLOTS + 5):
        losses.add(Loss(float(row)), row)
    Event.done = True
    losses.collect()
    assert sorted(rows) == list(range(SLOTS))
    losses.add(Loss(9.0), 100)
    losses.collect()
    assert rows[100] == 9.0


def test_losses_on_several_devices_are_told_by_events_of_theirs():
    rows = {}
    losses = DeviceLosses(*device(), rows.__setitem__)
    Event.done = True
    for row in range(2 * SLOTS + 1):
        losses.add(Loss(float(row), f"xpu:{row // SLOTS}"), row)
    losses.collect()
    assert rows == {row: float(row) for row in range(2 * SLOTS + 1)}


@pytest.mark.shows("cuda-graphs")
def test_a_graph_capture_is_left_alone():
    rows = {}
    losses = DeviceLosses(*device(capturing=True), rows.__setitem__)
    losses.add(Loss(1.0), 0)
    Event.done = True
    losses.collect()
    assert rows == {}


@pytest.mark.shows("cuda-graphs")
def test_inside_a_graph_capture_nobody_asks_for_an_earlier_loss(monkeypatch):
    """To ask an event is not permitted then, and ends the script's capture."""
    torch, used = device()
    losses = DeviceLosses(torch, used, {}.__setitem__)
    losses.add(Loss(1.0), 0)
    used.module.is_current_stream_capturing = lambda: True
    monkeypatch.setattr(Event, "query", lambda self: pytest.fail("asked in a capture"))
    losses.add(Loss(2.0), 1)


def test_a_complex_value_is_no_loss():
    torch = pytest.importorskip("torch")
    recorder = SimpleNamespace(loss=float("nan"), written=0)
    reader = LossReader(Moments(), torch)
    reader.read(recorder, torch.tensor(1 + 2j), False)
    assert recorder.loss != recorder.loss
    reader.read(recorder, torch.tensor(0.5), False)
    assert recorder.loss == 0.5


def test_several_values_are_no_loss_and_are_read_once_at_most(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(patch, "turned_off", {})
    recorder = SimpleNamespace(loss=float("nan"), written=0)
    reader = LossReader(Moments(), torch)
    reader.read(recorder, torch.tensor(0.5), False)
    for _ in range(2):
        reader.read(recorder, torch.tensor([1.0, 2.0]), False)
        assert reader.several
    reader.read(recorder, torch.tensor([0.25]), False)
    assert recorder.loss == 0.75
    assert not patch.broken()


@pytest.mark.parametrize("value", [3, True])
def test_a_whole_number_is_no_loss(value):
    torch = pytest.importorskip("torch")
    recorder = SimpleNamespace(loss=float("nan"), written=0)
    LossReader(Moments(), torch).read(recorder, torch.tensor(value), False)
    assert recorder.loss != recorder.loss


@pytest.mark.parametrize("watching", ["profile", "mode"])
def test_a_loss_is_read_unseen_where_the_script_looks_at_operators(watching):
    torch = pytest.importorskip("torch")
    from torch.utils.flop_counter import FlopCounterMode

    watches = (
        torch.autograd.profiler.profile if watching == "profile" else lambda: FlopCounterMode(display=False)
    )
    recorder = SimpleNamespace(loss=float("nan"), written=0, held=False)
    reader = LossReader(Moments(), torch)
    with watches() as seeing:
        reader.read(recorder, torch.full((), 0.5), False)
    assert recorder.loss == 0.5
    if watching == "profile":
        assert {event.name for event in seeing.function_events} & {"aten::item", "aten::detach"} == set()


def test_a_scaled_loss_without_a_backward_keeps_no_graph_alive():
    torch = pytest.importorskip("torch")
    reader, recorder = LossReader(Moments(), torch), SimpleNamespace(loss=float("nan"))
    loss = torch.full((2,), 3.0, requires_grad=True).sum()
    node = loss.grad_fn
    node.metadata["tied"] = tied = Scalar()
    gone = weakref.ref(tied)
    reader.before_scale((None, loss), {})
    scaled = loss * 1024
    reader.read(recorder, scaled, False)
    assert recorder.loss == 6.0
    reader.before_scale((None, loss), {})
    del loss, node, tied, scaled
    gc.collect()
    assert gone() is None

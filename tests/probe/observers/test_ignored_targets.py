from __future__ import annotations

import itertools
import time
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from perfdoctor.own_failures import STRICT
from perfdoctor.probe import accelerators, patch
from perfdoctor.probe.accelerators import Accelerator
from perfdoctor.probe.observers.ignored_targets import (
    COUNTED_MAX,
    ROWS,
    TARGETS_MAX,
    HeadCount,
    HeadLook,
    IgnoredTargets,
)
from tests.support import saved_hooks
from tests.support.sessions import Session

HIDDEN, LABELS = 8, torch.tensor([[1, -100, -100, 2], [-100, 3, -100, -100]])


@pytest.fixture(autouse=True)
def _watched_hooks(monkeypatch):
    saved_hooks.watched(monkeypatch)


def looks(*losses_of, times=1, steps=0):
    """What is written of steps with backwards of these losses of hidden states.

    The last backward of a step is looked at in `times` steps, and none in `steps` further ones.
    """
    session, schedule, recorder = Session(), SimpleNamespace(looks=[]), SimpleNamespace(written=0)
    watched = IgnoredTargets(SimpleNamespace(torch=torch, schedule=schedule, session=session))
    for number in range(times + steps):
        for loss_of in losses_of:
            loss = loss_of(torch.randn(2, 4, HIDDEN, requires_grad=True) * 1.0)
            if number < times and loss_of is losses_of[-1]:
                watched.sample(recorder, loss)
            for look in list(schedule.looks):
                look.before_backward(loss)
            loss.backward()
            for look in list(schedule.looks):
                look.after_backward()
        recorder.written += 1
    assert [look for look in schedule.looks if isinstance(look, HeadLook)] == []
    assert steps <= ROWS or schedule.looks == []
    return session.events


def head(bias=True):
    return torch.nn.Linear(HIDDEN, 50, bias=bias)


def test_targets_that_are_ignored_are_counted_and_the_backward_of_their_scores_is_timed():
    layer = head()
    loss_of = lambda x: functional.cross_entropy(layer(x).flatten(0, 1), LABELS.flatten())  # noqa: E731
    first, last = looks(loss_of, times=2)
    assert (first["looks"], first["targets"], first["ignored"], first["classes"]) == (1, 8, 5, 50)
    assert (last["looks"], last["targets"], last["ignored"]) == (2, 16, 10)
    assert 0 < first["seconds"] < last["seconds"]


def test_of_all_backwards_those_to_the_same_head_are_counted():
    layer, other = head(), head()
    one = lambda x: functional.cross_entropy(layer(x).flatten(0, 1), LABELS.flatten())  # noqa: E731
    with_other = lambda x: functional.cross_entropy(other(x).flatten(0, 1), LABELS.flatten())  # noqa: E731
    square = lambda x: x.square().mean()  # noqa: E731
    several = {(one,): 1.0, (one, one, one): 1.0, (square, one): 1 / 2, (square, with_other, one): 1 / 3}
    for losses_of, share in several.items():
        last = looks(*losses_of, times=2, steps=ROWS + 1)[-1]
        assert last["at_head"] / last["counted"] == pytest.approx(share)


def test_updates_of_their_own_between_those_of_the_head_count_as_well():
    layer, turns = head(), itertools.cycle((True, False, False))

    def loss_of(x):
        return functional.cross_entropy(layer(x).flatten(0, 1), LABELS.flatten()) if next(turns) else x.mean()

    last = looks(loss_of, times=4, steps=ROWS + 1)[-1]
    assert (last["at_head"], last["counted"]) == (ROWS / 3, ROWS)


def test_each_head_has_totals_of_its_own():
    layers = [head(), head()]
    turns = iter([0, 0, 1])
    events = looks(
        lambda x: functional.cross_entropy(layers[next(turns)](x).flatten(0, 1), LABELS.flatten()), times=3
    )
    assert [event["looks"] for event in events if event["head"] == 0][-1] == 2
    assert [event["looks"] for event in events if event["head"] == 1] == [1]


def test_of_a_step_that_never_ends_no_more_than_some_backwards_are_looked_at():
    session, schedule = Session(), SimpleNamespace(looks=[])
    watched = IgnoredTargets(SimpleNamespace(torch=torch, schedule=schedule, session=session))
    count = HeadCount(watched, SimpleNamespace(written=0))
    schedule.looks.append(count)
    for _ in range(COUNTED_MAX + 1):
        count.before_backward(None)
    assert schedule.looks == []


@pytest.mark.parametrize("bias", [True, False])
def test_scores_in_other_shapes_and_losses_of_other_kinds_are_followed(bias):
    layer = head(bias)
    for loss in (
        lambda x: functional.cross_entropy(layer(x).transpose(1, 2), LABELS),
        lambda x: functional.cross_entropy(layer(x).flatten(0, 1), LABELS.flatten(), label_smoothing=0.1),
        lambda x: functional.nll_loss(functional.log_softmax(layer(x).flatten(0, 1), -1), LABELS.flatten()),
        lambda x: functional.cross_entropy((x @ layer.weight.T).flatten(0, 1), LABELS.flatten()) / 4,
    ):
        (event,) = looks(loss)
        assert (event["targets"], event["ignored"]) == (8, 5)
        assert (event["rows"], event["width"], event["ignore_index"]) == (8, HIDDEN, -100)


def test_another_number_may_stand_for_what_is_ignored():
    layer, labels = head(), LABELS.clamp(min=0)
    (event,) = looks(
        lambda x: functional.cross_entropy(layer(x).flatten(0, 1), labels.flatten(), ignore_index=0)
    )
    assert (event["ignored"], event["ignore_index"]) == (5, 0)


def test_other_losses_scores_of_convolutions_and_several_losses_are_left_alone():
    layer, convolution = head(), torch.nn.Conv1d(HIDDEN, 50, 1)
    one = lambda x: functional.cross_entropy(layer(x).flatten(0, 1), LABELS.flatten())  # noqa: E731
    assert looks(lambda x: layer(x).square().mean()) == []
    assert looks(lambda x: functional.cross_entropy(convolution(x.transpose(1, 2)), LABELS)) == []
    assert looks(lambda x: one(x) + one(x)) == []
    assert looks(lambda x: functional.cross_entropy(layer(x).flatten(0, 1), torch.full((8, 50), 0.02))) == []


@pytest.mark.shows("guest")
def test_what_checkpoint_would_compute_again_is_not_asked_for():
    layer, calls = head(), []

    def scored(x):
        calls.append(1)
        return functional.cross_entropy(layer(x).flatten(0, 1), LABELS.flatten())

    assert looks(lambda x: checkpoint(scored, x, use_reentrant=False)) == []
    assert len(calls) == 2  # forward, and once more in backward


def test_layers_that_compute_are_no_part_of_a_head():
    layer, after = head(), torch.nn.Conv1d(50, 50, 1)
    assert looks(lambda x: functional.cross_entropy(after(layer(x).transpose(1, 2)), LABELS)) == []
    labels = LABELS.repeat(1, 3)
    grown = lambda x: functional.interpolate(layer(x).transpose(1, 2), scale_factor=3)  # noqa: E731
    assert looks(lambda x: functional.cross_entropy(grown(x), labels)) == []


def test_only_losses_that_picking_leaves_as_they_are_and_that_have_positions_are_looked_at(monkeypatch):
    monkeypatch.setattr(patch, "turned_off", {})
    layer = head()
    kept = lambda x: functional.cross_entropy(layer(x).flatten(0, 1), LABELS.flatten(), reduction="none")  # noqa: E731
    assert looks(lambda x: kept(x).mean()) == []
    assert looks(lambda x: functional.cross_entropy(layer(x)[0, 0], LABELS[0, 0])) == []
    assert patch.turned_off == {}


def test_what_else_uses_the_hidden_states_is_no_time_of_the_scores():
    layer, beside = head(), torch.nn.Linear(HIDDEN, 1)

    class Slow(torch.autograd.Function):
        @staticmethod
        def forward(ctx, given):
            return given.clone()

        @staticmethod
        def backward(ctx, gradient):
            time.sleep(2.0)
            return gradient

    def both(x):
        value = Slow.apply(beside(x)).mean()
        return functional.cross_entropy(layer(x).flatten(0, 1), LABELS.flatten()) + value

    (event,) = looks(both)
    assert event["seconds"] < 2.0


def test_a_look_that_fails_turns_off_no_more_than_itself(monkeypatch):
    monkeypatch.setattr(patch, "turned_off", {})
    monkeypatch.setattr(HeadLook, "seconds", lambda self: 1 / 0)
    monkeypatch.delenv(STRICT, raising=False)
    layer = head()
    assert looks(lambda x: functional.cross_entropy(layer(x).flatten(0, 1), LABELS.flatten())) == []
    assert list(patch.turned_off) == ["ignored targets"]


def test_of_rows_whose_same_place_is_ignored_all_places_are_read():
    layer = head()
    labels = torch.zeros(64, 1024, dtype=torch.long)
    labels[:, 0] = -100
    given = torch.randn(1, 1, HIDDEN, requires_grad=True)
    (event,) = looks(
        lambda x: functional.cross_entropy(layer(given).expand(64, 1024, 50).flatten(0, 1), labels.flatten())
    )
    assert event["ignored"] / event["targets"] == pytest.approx(1 / 1024, abs=0.002)


def test_gradients_are_those_of_a_backward_that_nobody_looked_at():
    layer, given = head(), torch.randn(2, 4, HIDDEN)
    bare = torch.autograd.grad(
        functional.cross_entropy(layer(given).flatten(0, 1), LABELS.flatten()), layer.weight
    )[0]
    looks(lambda x: functional.cross_entropy(layer(given + 0 * x).flatten(0, 1), LABELS.flatten()))
    assert torch.equal(layer.weight.grad, bare)


class DeviceEvent:
    """An event of a device that is behind its host until `done`."""

    done = False
    recorded = 0

    def __init__(self, enable_timing):
        assert enable_timing

    def record(self, stream):
        assert stream == "stream of cpu"
        DeviceEvent.recorded += 1
        self.at_ms = 4.0 * DeviceEvent.recorded

    def query(self):
        return DeviceEvent.done

    def elapsed_time(self, end):
        assert DeviceEvent.done, "asked too early: that waits"
        return end.at_ms - self.at_ms


@pytest.fixture
def device(monkeypatch):
    """Tensors of the CPU pass for those of a device."""
    DeviceEvent.done, DeviceEvent.recorded = False, 0
    module = SimpleNamespace(
        Event=DeviceEvent,
        is_current_stream_capturing=lambda: False,
        current_stream=lambda device: f"stream of {device}",
    )
    monkeypatch.setattr(accelerators, "of_kind", lambda torch, kind: Accelerator("cuda", module))
    monkeypatch.setattr(patch, "turned_off", {})
    return module


def on_device(times=1, labels=LABELS):
    """What watched some backwards on a device, and the session that it writes to."""
    session, schedule, layer = Session(), SimpleNamespace(looks=[]), head()
    pinned = lambda n, dtype, device, pin_memory: torch.zeros(n, dtype=dtype, device=device)  # noqa: E731
    fake = SimpleNamespace(Tensor=torch.Tensor, int64=torch.int64, empty=pinned)
    watched = IgnoredTargets(SimpleNamespace(torch=fake, schedule=schedule, session=session))
    for _ in range(times):
        hidden = torch.randn(labels.numel(), HIDDEN, requires_grad=True) * 1.0
        loss = functional.cross_entropy(layer(hidden), labels.flatten())
        watched.sample(SimpleNamespace(written=0), loss)
        loss.backward()
        for look in list(schedule.looks):
            look.after_backward()
    assert [look for look in schedule.looks if isinstance(look, HeadLook)] == []
    assert patch.turned_off == {}
    return watched, session


@pytest.mark.shows("guest")
def test_targets_of_a_device_are_told_once_it_is_done_and_nothing_waits(device):
    watched, session = on_device()
    watched.collect()
    assert session.events == []
    DeviceEvent.done = True
    watched.collect()
    watched.collect()
    (event,) = session.events
    assert (event["looks"], event["targets"], event["ignored"], event["classes"]) == (1, 8, 5, 50)
    assert event["seconds"] == pytest.approx(0.004)  # the device's, between two events


def test_a_device_that_is_behind_is_looked_at_again_when_it_has_caught_up(device):
    watched, session = on_device(times=3)
    DeviceEvent.done = True
    watched.collect()
    assert [event["looks"] for event in session.events] == [1]


def test_of_many_targets_on_a_device_some_are_read(device):
    DeviceEvent.done = True
    _, session = on_device(labels=torch.tensor([1, -100]).repeat(3 * TARGETS_MAX // 2 + 1))
    (event,) = session.events
    assert 0 < event["targets"] <= TARGETS_MAX


@pytest.mark.shows("cuda-graphs")
def test_in_a_graph_capture_nothing_is_launched_or_asked(device, monkeypatch):
    device.is_current_stream_capturing = lambda: True
    watched, session = on_device()
    assert (DeviceEvent.recorded, session.events) == (0, [])
    device.is_current_stream_capturing = lambda: False
    watched, session = on_device()
    device.is_current_stream_capturing = lambda: True
    monkeypatch.setattr(DeviceEvent, "query", lambda self: pytest.fail("asked in a capture"))
    watched.collect()
    assert session.events == []

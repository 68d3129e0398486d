from __future__ import annotations

from perfdoctor.facts.device.timed_copies import timed_copy_facts
from perfdoctor.model.measured import LineCost, Location, Phase, StackFacts
from perfdoctor.model.missing import Missing
from perfdoctor.wire.events.script import DeviceEvent
from tests.support.facts import device, loader, run, step

NO_WINDOW = Missing("no window")
STEP = step(host_to_device=2, forward=4, backward=4)
LOADER = loader(batch_bytes=40_000_000, batches_per_step=2.0)


def copying(text):
    line = LineCost(Location("train.py", 30, "main", text), 0.2, 50)
    return StackFacts(100, "py-spy", {Phase.HOST_TO_DEVICE: (line,)})


def facts(of_step=STEP, window=NO_WINDOW, stacks=NO_WINDOW, backend="cuda", of_loader=LOADER):
    trained_on = [DeviceEvent(backend=backend, name="Tesla V100")] if backend else []
    return timed_copy_facts(run(device="Tesla V100"), of_step, of_loader, trained_on, window, stacks)


def test_timers_tell_the_share_and_stack_samples_the_lines():
    found = facts(stacks=copying("x = x.to(device)"))
    assert (found.share, found.batch_bytes) == (0.2, 80_000_000)
    assert [at.line for at in found.at] == [30]
    assert not found.pinned_by_hand
    assert facts().at == ()


def test_a_line_that_pins_what_it_copies_is_known():
    assert facts(stacks=copying("x = x.pin_memory().to(device)")).pinned_by_hand


def test_a_window_of_the_device_tells_more():
    assert facts(window=device()) is None


def test_without_copies_or_their_size_or_memory_of_the_device_there_is_nothing():
    assert facts(of_step=step(forward=4, backward=4)) is None
    assert facts(of_loader=loader(batch_bytes=None)) is None
    assert facts(backend="mps") is None
    assert facts(backend=None) is None

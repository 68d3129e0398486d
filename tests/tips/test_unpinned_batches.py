from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.device.timed_copies import TimedCopyFacts
from perfdoctor.model.measured import Location
from perfdoctor.tips.unpinned_batches import unpinned_batches as tip
from tests.support.facts import LOADER_LINE, gain, loader, step

AT = Location("train.py", 30, "main", "x = x.to(device)")
STEP = step(host_to_device=20, forward=40, backward=40)
COPIES = TimedCopyFacts(0.2, 50_000_000, (AT,), pinned_by_hand=False)  # 10 ms at 5 GB/s


def test_names_the_time_of_copies_the_bytes_and_the_line():
    advice = tip(STEP, loader(), COPIES)
    assert advice.because == (
        "copies to the device take 20% of the training thread's time",
        "a step copies 50 MB of batches, and pin_memory is False",
        "no profiler window shows whether the device computes meanwhile: the range is wide",
    )
    assert advice.at == (AT,)
    assert advice.tweak == "--pin-memory --non-blocking"
    assert tip(STEP, loader(), replace(COPIES, at=())).at == (LOADER_LINE,)


def test_expects_from_nothing_to_all_of_it_and_likely_what_the_bytes_need_less():
    found = gain(tip(STEP, loader(), COPIES))
    assert found.low == 1.0
    assert found.likely == pytest.approx(1 / (1 - 0.1 * 7 / 12))
    assert found.high == pytest.approx(1 / 0.8)


def test_copying_takes_no_longer_than_was_timed():
    huge = gain(tip(STEP, loader(), replace(COPIES, batch_bytes=1e12)))
    assert huge.likely == pytest.approx(1 / (1 - 0.2 * 7 / 12))


@pytest.mark.parametrize(
    ("of_loader", "copies"),
    [
        pytest.param(loader(pin_memory=True), COPIES, id="pinned"),
        pytest.param(loader(), replace(COPIES, pinned_by_hand=True), id="pinned-by-hand"),
        pytest.param(loader(), replace(COPIES, share=0.04), id="short"),
        pytest.param(loader(), replace(COPIES, batch_bytes=1_000_000), id="waits-for-earlier-work"),
    ],
)
def test_is_silent(of_loader, copies):
    assert tip(STEP, of_loader, copies) is None

from __future__ import annotations

import pytest

from perfdoctor.tips.small_batch import small_batch as tip
from perfdoctor.tips.unfused_optimizer import unfused_optimizer
from tests.support.facts import LOADER_LINE, gain, loader, run, step
from tests.support.load_facts import GB, memory
from tests.support.script_facts import optimizers, sizes

STEP = step(forward=4, backward=4, optimizer=2)
FIXED = sizes(0.8, samples=4)
LOADER = loader(batch_size=4)


def test_says_what_is_fixed_how_that_is_known_and_that_memory_is_free():
    advice = tip(run(), STEP, FIXED, LOADER, memory())
    assert advice.because == (
        "about 80% of a step of 4 samples is fixed cost",
        "4 samples still take 2.00 ms",
        "2.0 of 16 GB of memory are in use",
    )
    assert advice.at == (LOADER_LINE,)
    assert (advice.tweak, advice.same_result) == ("--batch-size 16", False)


def test_the_fixed_part_is_shared_by_twice_to_eight_times_as_many():
    share = tip(run(), STEP, FIXED, LOADER, memory()).change.step
    assert (share.low, share.likely, share.high) == pytest.approx((0.2, 0.6, 0.84))


@pytest.mark.parametrize(
    ("fixed", "samples", "batch"),
    [
        pytest.param(0.5, 4, 16, id="four-times-at-least"),
        pytest.param(0.9, 4, 32, id="nine-times-would-be-even"),
        pytest.param(0.95, 4, 64, id="nineteen-times-would-be-even"),
        pytest.param(1.0, 4, 128, id="all-of-it"),
        pytest.param(1.0, 32, 128, id="no-more-than-is-advised"),
    ],
)
def test_the_more_is_fixed_the_larger_the_batch(fixed, samples, batch):
    facts = (run(), STEP, sizes(fixed, samples), loader(batch_size=samples), memory())
    assert tip(*facts).tweak == f"--batch-size {batch}"


@pytest.mark.parametrize(
    ("device", "of_sizes", "of_memory"),
    [
        pytest.param("cpu", sizes(0.39, 4), memory(), id="just-under-the-threshold"),
        pytest.param("cpu", sizes(0.8, 33), memory(), id="not-small"),
        pytest.param("cpu", FIXED, memory(peak_rss_bytes=9 * GB), id="memory-in-use"),
        pytest.param("cpu", FIXED, memory(peak_rss_bytes=None), id="memory-unknown"),
        pytest.param("Tesla V100", FIXED, memory(), id="a-device-works-behind-the-hosts-back"),
    ],
)
def test_is_silent(device, of_sizes, of_memory):
    assert tip(run(device=device), STEP, of_sizes, LOADER, of_memory) is None


@pytest.mark.parametrize(("items", "tweak"), [(64, "--batch-size 16"), (63, None), (None, "--batch-size 16")])
def test_a_trial_needs_an_epoch_of_some_batches(items, tweak):
    assert tip(run(), STEP, FIXED, loader(batch_size=4, items=items), memory()).tweak == tweak


def test_is_silent_where_the_loader_does_not_batch():
    assert tip(run(), STEP, FIXED, loader(batch_size=None), memory()) is None


def test_where_nearly_all_is_fixed_a_larger_batch_brings_more_than_a_fused_optimizer():
    tiny = step(forward=0.5, backward=0.9, optimizer=1.0)
    larger = gain(tip(run(), tiny, sizes(0.94, samples=4), LOADER, memory()))
    assert larger.likely > 5
    assert larger.likely > 2 * gain(unfused_optimizer(tiny, optimizers())).likely - 1

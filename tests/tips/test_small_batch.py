from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.steps.batch_room import BatchRoom
from perfdoctor.model.concluded import Bottleneck
from perfdoctor.tips.small_batch import small_batch as tip
from perfdoctor.tips.unfused_optimizer import unfused_optimizer
from tests.support.facts import LOADER_LINE, gain, loader, step
from tests.support.load_facts import GB
from tests.support.script_facts import optimizers, sizes

FIXED = sizes(0.8, samples=4)
LOADER = loader(batch_size=4)
ROOM = BatchRoom(2 * GB, 16 * GB)
ON_DEVICE = replace(sizes(0.8, samples=4), small_for_device=True)
DEVICE = BatchRoom(10 * GB, 80 * GB, 2 * GB)


def test_says_what_is_fixed_how_that_is_known_and_that_memory_is_free():
    advice = tip(FIXED, LOADER, ROOM)
    assert advice.because == (
        "about 80% of a step of 4 samples is fixed cost",
        "4 samples still take 2.00 ms",
        "2.0 of 16 GB of memory are in use",
    )
    assert advice.at == (LOADER_LINE,)
    assert (advice.tweak, advice.same_result) == ("--batch-size 16", False)
    assert advice.arguments == "per_device_train_batch_size=16"


def test_where_steps_accumulate_batches_says_which_size_is_the_loaders():
    advice = tip(sizes(0.8, samples=8), LOADER, ROOM)
    assert advice.because[0] == "about 80% of a step of 8 samples (2 batches of 4) is fixed cost"
    assert (advice.tweak, advice.code) == ("--batch-size 16", "batch_size=16  # of the loader, now 4")


def test_the_fixed_part_is_shared_by_twice_to_eight_times_as_many():
    share = tip(FIXED, LOADER, ROOM).change.step
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
    advice = tip(sizes(fixed, samples), loader(batch_size=samples), ROOM)
    assert advice.tweak == f"--batch-size {batch}"


def test_on_a_device_that_waits_for_its_host_it_is_the_hosts_time_that_goes():
    assert tip(ON_DEVICE, LOADER, DEVICE).bottleneck is None
    assert tip(replace(ON_DEVICE, launching=0.5), LOADER, DEVICE).bottleneck is Bottleneck.HOST


@pytest.mark.parametrize(
    ("of_sizes", "room"),
    [
        pytest.param(sizes(0.39, 4), ROOM, id="just-under-the-threshold"),
        pytest.param(sizes(0.8, 33), ROOM, id="not-small"),
        pytest.param(FIXED, BatchRoom(9 * GB, 16 * GB), id="memory-in-use"),
    ],
)
def test_is_silent(of_sizes, room):
    assert tip(of_sizes, LOADER, room) is None


@pytest.mark.parametrize(("items", "tweak"), [(64, "--batch-size 16"), (63, None), (None, "--batch-size 16")])
def test_a_trial_needs_an_epoch_of_some_batches(items, tweak):
    assert tip(FIXED, loader(batch_size=4, items=items), ROOM).tweak == tweak


@pytest.mark.parametrize(("items", "most"), [(None, "32"), (40, "32"), (16, "16"), (15, None)])
def test_a_batch_is_at_most_all_there_is(items, most):
    advice = tip(sizes(0.94, samples=4), loader(batch_size=4, items=items), ROOM)
    assert (advice.code if advice is not None else None) == (f"batch_size={most}" if most else None)


def test_is_silent_where_the_loader_does_not_batch():
    assert tip(FIXED, loader(batch_size=None), ROOM) is None


def test_where_nearly_all_is_fixed_a_larger_batch_brings_more_than_a_fused_optimizer():
    tiny = step(forward=0.5, backward=0.9, optimizer=1.0)
    larger = gain(tip(sizes(0.94, samples=4), LOADER, ROOM))
    assert larger.likely > 5
    assert larger.likely > 2 * gain(unfused_optimizer(tiny, optimizers())).likely - 1


def test_on_a_device_says_which_batch_fits_and_why():
    assert tip(ON_DEVICE, LOADER, DEVICE).because[2:] == (
        "10.0 of 80 GB of device memory are in use",
        "batches of about 35 fit, as 2.0 GB of it (parameters, gradients, optimizer state) does not grow",
    )
    assert tip(ON_DEVICE, LOADER, replace(DEVICE, fixed_bytes=0)).because[3] == (
        "batches of about 28 fit, if all of it grows with the batch"
    )


@pytest.mark.parametrize(
    ("used", "batch"),
    [
        pytest.param(8.0, "--batch-size 512", id="eight-times-at-most"),
        pytest.param(16.0, "--batch-size 256", id="four-and-a-half-fit"),
        pytest.param(36.0, "--batch-size 128", id="just-twice"),
    ],
)
def test_on_a_device_a_large_batch_grows_as_far_as_it_fits(used, batch):
    large = replace(sizes(1.0, samples=64), small_for_device=True)
    room = BatchRoom(int(used * GB), 80 * GB)
    assert tip(large, loader(batch_size=64), room).tweak == batch


@pytest.mark.parametrize(
    ("of_sizes", "room"),
    [
        pytest.param(replace(ON_DEVICE, small_for_device=False), DEVICE, id="the-device-is-filled"),
        pytest.param(replace(ON_DEVICE, fixed=(0.2, 0.39, 0.5)), DEVICE, id="little-is-fixed"),
        pytest.param(ON_DEVICE, BatchRoom(37 * GB, 80 * GB), id="no-memory-is-free"),
    ],
)
def test_on_a_device_is_silent(of_sizes, room):
    assert tip(of_sizes, LOADER, room) is None

from __future__ import annotations

import pytest

from perfdoctor.model.concluded import Bottleneck
from perfdoctor.tips.shallow_prefetch import shallow_prefetch as tip
from tests.support import facts
from tests.support.facts import LOADER_LINE, cpu, loader, model, step

ONE_DEAR = (0.5,) * 15 + (8.5,)
LATE = step(data_wait=4, forward=9, cpu=9)
UNEVEN = {"workers": 2, "batch": 14, "p95": 100, "spread": ONE_DEAR}


def judge(of_step=LATE, **of_loader):
    built = loader(**(UNEVEN | of_loader))
    return tip(of_step, built, model(of_step, built, cpu()))


def test_names_the_wait_the_spread_and_the_depth():
    advice = judge(batch_bytes=1_000_000)
    assert advice is not None
    depth = advice.change.prefetch
    assert advice.because == (
        "31% of each step waits for the next batch",
        "a batch costs 14.0 ms at the median and 100.0 ms at the 95th percentile",
        f"each of 2 workers prefetches 2 batches; {depth} per worker would take {depth * 2} MB in all",
    )
    assert advice.at == (LOADER_LINE,)
    assert advice.tweak == f"--prefetch {depth}"
    assert advice.arguments == f"dataloader_num_workers=2, dataloader_prefetch_factor={depth}"


def test_waits_that_a_deeper_queue_leaves_as_they_are_are_named_where_they_count():
    advice = judge(other_wait_s=0.001)
    assert advice.because[0] == "23% of each step waits for the next batch, not counting other loaders"
    assert judge(other_wait_s=0.00001).because[0] == "31% of each step waits for the next batch"


def test_expects_what_the_simulated_queue_says():
    built = model(LATE, loader(**UNEVEN), cpu())
    advice = judge()
    deeper_s = built.step_after([advice.change])
    assert facts.gain(advice, built).likely == pytest.approx(built.step_with(2) / deeper_s)
    assert deeper_s < built.step_with(2)


@pytest.mark.parametrize(
    ("of_step", "of_loader"),
    [
        pytest.param(LATE, {"p95": 20.9}, id="even-batches"),
        pytest.param(LATE, {"batch": 40}, id="workers-too-slow-in-the-mean"),
        pytest.param(LATE, {"workers": 0}, id="no-workers"),
        pytest.param(LATE, {"prefetch_factor": 32}, id="deep-already"),
        pytest.param(step(data_wait=0.47, forward=9, cpu=9), {}, id="just-under-a-noticeable-wait"),
        pytest.param(LATE, {"epoch_wait_s": 0.0036}, id="waits-at-epoch-starts"),
    ],
)
def test_is_silent(of_step, of_loader):
    assert judge(of_step, **of_loader) is None


def test_its_class_is_data():
    assert tip.__tip__.bottleneck is Bottleneck.DATA

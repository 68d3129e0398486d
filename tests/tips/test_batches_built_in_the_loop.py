from __future__ import annotations

import pytest

from perfdoctor.facts.device.created_tensors import CreatedTensors
from perfdoctor.facts.predict.step_model import of_loop
from perfdoctor.tips.batches_built_in_the_loop import batches_built_in_the_loop as tip
from tests.support import facts
from tests.support.facts import cpu, line, loader, stacks, step
from tests.support.rank_traces import site

NOTHING = CreatedTensors()
SLOW = step(other=12, forward=3, backward=5, cpu=19)
BUILDS = (line(0.4, 20, "data", text="x = stack(rows)"), line(0.2, 19, "data"))


def judge(of_stacks, of_cpu, of_step=SLOW, created=NOTHING):
    return tip(of_step, of_stacks, of_cpu, of_loop(of_step, of_cpu), created)


def test_names_the_share_and_the_line():
    advice = judge(stacks(*BUILDS), cpu(cores=4))
    assert advice is not None
    assert advice.because == (
        "60% of each step (12.0 ms) is spent preparing the next batch in the training loop",
        "line 20 takes the most, 40% of the step: `x = stack(rows)`",
    )
    assert [at.line for at in advice.at] == [20, 19]
    gain = facts.gain(advice, of_loop(SLOW, cpu(cores=4)))
    assert 1.5 < gain.likely <= gain.high <= 2.5 + 1e-9


def test_leaves_out_what_the_device_could_create_itself():
    made = CreatedTensors((site(made_by="aten::randn", line=20),))
    assert [at.line for at in judge(stacks(*BUILDS), cpu(cores=4), created=made).at] == [19]


def test_expects_less_on_two_cores_that_compute_keeps_busy():
    busy = step(other=12, forward=3, backward=5, cpu=28)
    alone, shared = (
        facts.gain(judge(stacks(*BUILDS), cpu(cores=cores), busy), of_loop(busy, cpu(cores=cores)))
        for cores in (8, 2)
    )
    assert shared.likely < alone.likely


@pytest.mark.parametrize(
    ("cores", "whole"),
    [pytest.param(8, False, id="free-cores"), pytest.param(2, True, id="cores-that-compute-keeps-busy")],
)
def test_promises_what_the_printed_code_brings(cores, whole):
    busy = step(other=6, forward=5, backward=9, cpu=37)
    model = of_loop(busy, cpu(cores=cores))
    advice = judge(stacks(line(0.3, 20, "data", text="x = stack(rows)")), cpu(cores=cores), busy)
    assert ("index whole arrays" in advice.code) is whole
    assert ("DataLoader" in advice.code) is not whole
    assert (advice.change.workers is None) is whole
    if whole:
        assert facts.gain(advice, model).likely == pytest.approx(1 / (1 - 0.7 * 0.3))
        assert "whole arrays at once save more" in advice.because[-1]


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param((line(0.0799, kind="data"),), id="just-under-the-threshold"),
        pytest.param((line(0.6, kind="data", samples=4),), id="too-few-samples"),
        pytest.param((line(0.6, kind="logging"), line(0.2)), id="other-work"),
        pytest.param((), id="nothing-seen"),
    ],
)
def test_is_silent(lines):
    assert judge(stacks(*lines), cpu()) is None


def test_what_waits_without_a_core_can_be_fetched_at_once():
    idle = step(other=12, forward=3, backward=5, cpu=12)
    advice = judge(stacks(*BUILDS), cpu(cores=2), idle)
    assert "for 67% of that time no core works" in advice.because[-1]
    assert "ThreadPoolExecutor" in advice.code
    share = advice.change.step
    assert (share.low, share.likely, share.high) == pytest.approx((0.2, 0.36, 0.6))
    works = judge(stacks(*BUILDS), cpu(cores=2), step(other=12, forward=3, backward=5, cpu=15))
    assert "ThreadPoolExecutor" not in works.code


@pytest.mark.parametrize(
    ("of_cpu", "cpu_ms", "waits"),
    [
        pytest.param(cpu(cores=2, other_cores=1.6, main_delay=0.4), 12, False, id="ready-without-a-core"),
        pytest.param(cpu(cores=2, other_cores=1.6), 12, False, id="crowded-and-no-delay-known"),
        pytest.param(cpu(cores=2, other_cores=1.6, main_delay=0.05), 12, True, id="crowded-but-undisturbed"),
        pytest.param(cpu(cores=2), 7, False, id="computing-waits-as-well"),
        pytest.param(cpu(cores=2), 7.5, True, id="sleeps"),
    ],
)
def test_who_has_no_core_waits_for_no_storage(of_cpu, cpu_ms, waits):
    advice = judge(stacks(*BUILDS), of_cpu, step(other=12, forward=3, backward=5, cpu=cpu_ms))
    assert any("no core works" in reason for reason in advice.because) == waits


def test_fires_just_above_the_threshold():
    assert judge(stacks(line(0.0801, kind="data")), cpu()) is not None


WAITS = step(other=3, data_wait=15, forward=12, cpu=28)


def test_is_silent_where_a_loader_without_workers_delivers_the_batches():
    beside = facts.model(WAITS, loader(0, batch=15), cpu(cores=2))
    assert tip(WAITS, stacks(line(0.09, kind="data")), cpu(cores=2), beside, NOTHING) is None


@pytest.mark.parametrize("workers", [1, 2])
def test_beside_a_loader_with_workers_it_gains_no_more_than_its_own_share(workers):
    computes = step(other=3, forward=27, cpu=30)
    beside = facts.model(computes, loader(workers, batch=10 * workers), cpu(cores=8))
    advice = tip(computes, stacks(line(0.1, kind="data")), cpu(cores=8), beside, NOTHING)
    assert facts.gain(advice, beside).high <= 1 / 0.9 + 1e-9
    assert f"num_workers={workers})" in advice.code


@pytest.mark.parametrize("workers", [1, 2])
def test_is_silent_beside_workers_that_training_waits_for_already(workers):
    beside = facts.model(WAITS, loader(workers, batch=30 * workers), cpu(cores=8))
    assert tip(WAITS, stacks(line(0.1, kind="data")), cpu(cores=8), beside, NOTHING) is None


def test_is_silent_where_handing_a_batch_over_takes_longer_than_preparing_it():
    tiny = step(other=0.06, forward=0.15, backward=0.15)
    assert judge(stacks(line(0.17, kind="data")), cpu(), tiny) is None
    assert (
        judge(stacks(line(0.17, kind="data")), cpu(), step(other=60, forward=150, backward=150)) is not None
    )

from __future__ import annotations

import pytest

from perfdoctor.facts.device.batch_fill import BatchFill
from perfdoctor.facts.steps import boundaries
from perfdoctor.facts.steps.batch_size_cost import BatchSizeFacts
from perfdoctor.facts.steps.batch_size_cost import batch_size_facts as fact
from perfdoctor.model.measured import OperatorCost, WindowFacts
from perfdoctor.model.missing import Missing
from perfdoctor.trace.measure.measure import measure
from tests.support.facts import cpu, run
from tests.support.records import backward, rows, update
from tests.support.traces import Recording


def batch_size_facts(
    steps, window, shapes=None, of_run=None, fill=None, cores=None
) -> BatchSizeFacts | Missing | None:
    windows = {"shapes": measure(shapes)} if shapes is not None else {}
    return fact(steps, window, windows, of_run or run(), cores, fill)


def seen(described):
    found = boundaries.find(rows(described))
    assert found is not None
    return found


def one(samples, fixed=6.0, each=0.5):
    """A step that takes `fixed` ms, and `each` ms for each sample."""
    half = (fixed + each * samples) / 2
    return update(2 * half + 2, samples=samples, forward=half, backward=half, data_wait=2)


def delivered_ahead(sizes, ahead, accumulated=1):
    """An epoch of steps that train on so many batches of `sizes`, whose loader is `ahead` in front of them."""
    steps = []
    given = 0
    for used in range(accumulated, len(sizes) + 1, accumulated):
        new = sizes[given : used + ahead]
        half = (6.0 * accumulated + 0.5 * sum(sizes[used - accumulated : used])) / 2
        counts = {"samples": sum(new), "batches": len(new), "backwards": accumulated}
        steps.append(update(2 * half + 2, forward=half, backward=half, data_wait=2, **counts))
        given += len(new)
    return steps


def window(calls, on_device=False):
    return WindowFacts("w", 3, on_device, (OperatorCost("aten::mm", 1.0, calls),))


def test_smaller_batches_tell_what_a_step_costs_without_any():
    facts = batch_size_facts(seen([one(8)] * 40 + [one(2)] * 4), None)
    assert facts.samples == 8
    low, likely, high = facts.fixed
    assert likely == pytest.approx(6 / 12, rel=0.05)  # of 12 ms a step, 10 of them computing
    assert low < likely < high
    assert facts.because == "8 samples take 10.00 ms to compute and to learn from, 2 still take 7.00 ms"


@pytest.mark.parametrize("ahead", [0, 1, 2])
def test_a_loader_that_runs_ahead_has_delivered_the_smaller_batch_before_its_step(ahead):
    facts = batch_size_facts(seen(delivered_ahead([8] * 20 + [2], ahead) * 5), None)
    assert facts.samples == 8
    assert facts.because == "8 samples take 10.00 ms to compute and to learn from, 2 still take 7.00 ms"


def test_of_accumulated_batches_that_a_loader_delivers_ahead_the_last_step_has_no_fewer():
    assert batch_size_facts(seen(delivered_ahead([8] * 20, 1, accumulated=2) * 6), None) is None
    facts = batch_size_facts(seen(delivered_ahead([8] * 21 + [1], 1, accumulated=2) * 6), None)
    assert facts.samples == 16
    assert facts.because == "16 samples take 20.00 ms to compute and to learn from, 9 still take 16.50 ms"


def test_batches_of_validation_are_not_taken_for_those_of_a_loader_that_runs_ahead():
    validates = {**one(8), "batches": 7, "backwards": 1}
    facts = batch_size_facts(seen([validates, *delivered_ahead([8] * 19 + [2], 0)] * 5), None)
    assert facts.because == "8 samples take 10.00 ms to compute and to learn from, 2 still take 7.00 ms"


def test_steps_that_train_on_one_batch_together_are_no_loader_that_runs_ahead():
    again = update(12, samples=0, forward=5, backward=5, data_wait=2, backwards=1)
    new, smaller = ({**one(samples), "batches": 1, "backwards": 1} for samples in (8, 2))
    facts = batch_size_facts(seen(([new, again] * 10 + [smaller, again]) * 5), None)
    assert facts.because == "8 samples take 10.00 ms to compute and to learn from, 2 still take 7.00 ms"


@pytest.mark.parametrize(
    "described",
    [
        pytest.param([one(8)] * 40, id="all-alike"),
        pytest.param([one(8)] * 40 + [one(2)] * 2, id="too-few-smaller-ones"),
        pytest.param([one(8)] * 40 + [one(5)] * 9, id="not-small-enough"),
        pytest.param([update(5, forward=5)] * 40, id="samples-unknown"),
        pytest.param([backward(5, samples=8)] * 40, id="no-optimizer"),
    ],
)
def test_tells_nothing_without_a_window(described):
    assert batch_size_facts(seen(described), None) is None


def test_cost_that_grows_with_the_batch_leaves_nothing_fixed():
    facts = batch_size_facts(seen([one(8, fixed=0)] * 40 + [one(2, fixed=0)] * 4), None)
    assert facts.fixed[1] == pytest.approx(0.0, abs=1e-6)


def test_many_operators_cost_their_calls():
    facts = batch_size_facts(seen([one(8)] * 40), window(8_000))
    assert facts.fixed == pytest.approx((10 / 12 * 0.32, 10 / 12 * 0.64, 10 / 12))
    assert facts.because.startswith("8,000 operators per step take 1.2 µs each")


def test_few_operators_are_no_cost():
    assert batch_size_facts(seen([one(8)] * 40), window(10)).fixed[1] == pytest.approx(10 / 12 * 0.0008)


def test_a_device_computes_behind_the_hosts_back():
    assert batch_size_facts(seen([one(8)] * 40 + [one(2)] * 4), None, of_run=run(device="A100")) is None


def test_on_a_device_its_kernels_tell():
    fill = BatchFill(0.5, (0.4, 0.6, 0.7), "kernels take 3.0 µs in the mean")
    facts = batch_size_facts(seen([one(8)] * 40), None, of_run=run(device="A100"), fill=fill)
    assert facts == BatchSizeFacts(8, (0.4, 0.6, 0.7), "kernels take 3.0 µs in the mean", True)


def test_on_a_device_without_a_window_the_reason_is_the_windows():
    missing = Missing("no torch.profiler window was recorded")
    assert batch_size_facts(seen([one(8)] * 40), None, of_run=run(device="A100"), fill=missing) is missing


def of_step(products=(), others=(), update_us=0.0, dispatch_us=0.0):
    """A window of one step: products of (MFLOP, us) on the host, other operators of so many us, an update."""
    made, at = Recording(), 10.0
    for mflop, us in products:
        made.op(
            "aten::mm", at, at + us, shapes=[(round(mflop * 1e6) // 200, 10), (10, 10)], types=["float"] * 2
        )
        at += us + dispatch_us
    for us in others:
        made.op(f"aten::for_{us}_us", at, at + us)
        at += us + dispatch_us
    if update_us:
        made.mark("Optimizer.step#Adam.step", at, at + update_us)
        made.op("aten::mul_", at, at + update_us)
    made.mark("ProfilerStep#1", 0, at + update_us + 10)
    return made.trace()


def test_what_no_operator_needs_for_its_samples_is_fixed():
    # 8 samples compute for 10 ms; products of 2 MFLOP a ms need 0.6 ms, a long operator 2.995 ms
    shapes = of_step([(0.4, 200), (0.8, 400)], [3000, 4, 4, 4])
    facts = batch_size_facts(seen([one(8)] * 40), window(1_000), shapes)
    assert facts.fixed[1] == pytest.approx(10 / 12 * (1 - 3.595 / 10), rel=0.01)
    assert facts.fixed[0] == pytest.approx(10 / 12 * 0.08)
    assert "1.2 MFLOP at 2 GFLOP/s" in facts.because


def test_where_other_programs_hold_the_cores_waiting_for_one_is_no_fixed_cost():
    shapes, steps = of_step([(0.4, 200), (0.8, 400)]), seen([one(8)] * 40)
    by_calls = batch_size_facts(steps, window(1_000))
    held = cpu(2, other_cores=1.8, main_delay=0.83)
    assert batch_size_facts(steps, window(1_000), shapes, cores=held) == by_calls
    for free in (cpu(2, other_cores=1.8, main_delay=0.1), cpu(2, other_cores=0.1, main_delay=0.83)):
        assert batch_size_facts(steps, window(1_000), shapes, cores=free).fixed[1] > by_calls.fixed[1]


def test_billions_of_operations_are_told_in_billions():
    facts = batch_size_facts(seen([one(8)] * 40), window(1), of_step([(5070, 2000)]))
    assert ": 5.07 GFLOP at 2.54 TFLOP/s, as the fastest" in facts.because


def test_a_short_product_costs_more_than_its_work_a_long_one_is_as_fast_as_it_can_be():
    fast = [(8.0, 1000)]  # 8 GFLOP/s
    short = batch_size_facts(seen([one(8)] * 40), window(1), of_step([*fast, *[(0.008, 20)] * 100]))
    long = batch_size_facts(seen([one(8)] * 40), window(1), of_step([*fast, (0.8, 2000)]))
    assert short.fixed[1] == pytest.approx(10 / 12 * (1 - 1.1 / 10), rel=0.01)
    assert long.fixed[1] == pytest.approx(10 / 12 * (1 - 2.98 / 10), rel=0.01)


def test_a_step_that_its_operators_fill_has_nothing_fixed():
    shapes = of_step([(80, 4000), (80, 4000)], [2000])
    assert batch_size_facts(seen([one(8)] * 40), window(10), shapes).fixed[1] < 0.01


def test_an_update_is_needed_by_no_sample():
    shapes = of_step([(2.0, 1000)], update_us=5000)
    facts = batch_size_facts(seen([one(8)] * 40), window(1), shapes)
    assert facts.fixed[1] == pytest.approx(10 / 12 * 0.9, rel=0.01)


def test_without_a_product_no_rate_is_known():
    assert (
        "operators per step" in batch_size_facts(seen([one(8)] * 40), window(8_000), of_step((), [9])).because
    )

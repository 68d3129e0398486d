from __future__ import annotations

import numpy as np
import pytest

from perfdoctor.facts.host.resources import OwnSamples
from perfdoctor.facts.host.step_growth import step_growth
from perfdoctor.facts.steps.boundaries import find
from perfdoctor.model.measured import Phase
from tests.support.records import MS, rows, update

NOISE = np.random.default_rng(0)


def growth(described, delay_per_step=lambda n: 0.0):
    """The growth of these steps; `delay_per_step` tells how long the threads of step n had no core, in ms."""
    steps = find(rows(described))
    waited_s = np.cumsum([delay_per_step(n) for n in range(len(described))]) / 1e3
    samples = [
        {"t_ns": int(end_ns), "procs": [{"role": "main", "pid": 1, "threads_delay_s": float(waited)}]}
        for end_ns, waited in zip(steps.end_ns[::10], waited_s[::10], strict=True)
    ]
    return step_growth(steps, OwnSamples(samples))


def working(ms, other=0.0, cpu_share=1.0):
    """A step of computing, `other` ms of other work, and the CPU time of both."""
    ms += NOISE.normal(0, 0.2)
    whole = ms + other
    cpu_ns = round(whole * cpu_share * MS)
    return update(whole, forward=ms / 2, backward=ms / 2, process_cpu_ns=cpu_ns)


def test_steps_that_grow_all_along_tell_by_how_much_and_in_which_phase():
    found = growth([working(10, other=n / 40) for n in range(400)])
    assert found.first_s == pytest.approx(0.0124, abs=0.0003)
    assert found.last_s == pytest.approx(0.0196, abs=0.0003)
    assert found.begin_s == pytest.approx(0.010, abs=0.0005)
    assert found.slower == pytest.approx(1 / 3, abs=0.03)
    assert found.phases[Phase.OTHER] == pytest.approx(1, abs=0.05)
    assert found.phases[Phase.FORWARD] == pytest.approx(0, abs=0.05)
    assert found.first[Phase.OTHER] == pytest.approx(0.0024, abs=0.0003)
    assert found.cpu == pytest.approx(1, abs=0.1)
    assert found.waiting == pytest.approx(0, abs=0.01)


def test_the_begin_is_no_quicker_than_any_step_was_and_a_warm_up_is_no_measure_of_it():
    late = growth([working(10, other=max(0, n - 60) / 40) for n in range(400)])
    assert late.begin_s == pytest.approx(0.010, abs=0.0005)
    warming = growth([working(30 if n < 70 else 10, other=n / 40) for n in range(400)])
    assert warming.begin_s == pytest.approx(0.0118, abs=0.0005)


def test_steps_that_wait_longer_and_longer_for_a_core_are_told_apart():
    described = [working(10 * (1 + n / 400), cpu_share=1 / (1 + n / 400)) for n in range(400)]
    found = growth(described, delay_per_step=lambda n: 10 * n / 400)
    assert found.waiting == pytest.approx(1, abs=0.1)
    assert found.cpu == pytest.approx(0, abs=0.1)


def test_work_that_grows_grows_its_cpu_time_as_well_where_cores_are_wanted():
    described = [working(10 + n / 20, cpu_share=0.3) for n in range(400)]
    found = growth(described, delay_per_step=lambda n: 0.7 * (10 + n / 20))
    assert found.cpu == pytest.approx(1, abs=0.1)
    assert found.waiting == pytest.approx(0.7, abs=0.1)


def test_validation_and_checkpoints_that_grow_are_no_growth_of_steps():
    described = [working(10) | {"ms": 10 + n / 20, "validation": n / 20} for n in range(400)]
    assert growth(described) is None


@pytest.mark.parametrize(
    "ms",
    [
        pytest.param(lambda n: 10, id="steady"),
        pytest.param(lambda n: 30 if n < 60 else 10, id="warm-up"),
        pytest.param(lambda n: 10 if n < 200 else 15, id="a-jump"),
        pytest.param(lambda n: min(10 + n / 10, 24), id="levels-off"),
        pytest.param(lambda n: 10 + (n // 40 % 2) * 5, id="to-and-fro"),
        pytest.param(lambda n: 20 - n / 40, id="faster-and-faster"),
        pytest.param(lambda n: 300 if n == 390 else 10, id="one-long-step"),
    ],
)
def test_what_does_not_grow_all_along_is_none(ms):
    assert growth([working(ms(n)) for n in range(400)]) is None


def test_too_few_steps_tell_nothing():
    assert growth([working(10 + n / 10) for n in range(123)]) is None
    assert growth([working(10 + n / 10) for n in range(124)]) is not None

from __future__ import annotations

import pytest

from perfdoctor.tips.slow_backend import slow_backend as tip
from tests.support.facts import among, exchange, step
from tests.support.script_facts import parallel

STEP = step(forward=4, backward=5, optimizer=1)


def test_names_the_backend_and_the_line_that_chose_it():
    advice = tip(STEP, parallel(device="cuda", exposed_s=0.004))
    assert advice.because == (
        "gloo sends the gradients of cuda parameters through the CPU",
        "40% of the step is gradient sync that backward does not overlap",
    )
    assert [at.line for at in advice.at] == [12]
    assert advice.change.step.likely == pytest.approx(0.32)


def test_where_each_exchange_was_timed_that_is_what_counts():
    timed = parallel(device="cuda", exposed_s=9.0, own=among(moving=2.0), gradient_sync=exchange())
    assert tip(STEP, timed).because[-1].startswith("20% of the step")


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(parallel(exposed_s=0.004), id="on-cpus-gloo-is-right"),
        pytest.param(parallel(device="cuda", backend="nccl", exposed_s=0.004), id="nccl"),
        pytest.param(parallel(device="cuda", exposed_s=0.0004), id="just-under-the-threshold"),
        pytest.param(parallel(device="cuda", exposed_s=None), id="not-measured"),
    ],
)
def test_is_silent(found):
    assert tip(STEP, found) is None

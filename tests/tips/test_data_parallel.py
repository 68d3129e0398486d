from __future__ import annotations

import pytest

from perfdoctor.tips.data_parallel import data_parallel as tip
from tests.support.facts import run, step
from tests.support.script_facts import parallel

STEP = step(forward=4, backward=5, optimizer=1)
OLD = parallel(wrapper="DataParallel", device_ids=4, world=1)
HERE = run(command=("python", "train.py", "--lr", "0.1"))


def test_names_the_constructor_and_the_command():
    advice = tip(HERE, STEP, OLD)
    assert advice.because[0] == "one process drives 4 devices through nn.DataParallel"
    assert advice.code == "torchrun --nproc-per-node 4 train.py --lr 0.1"
    assert [at.line for at in advice.at] == [22]
    assert advice.change.step.low == pytest.approx(0.9 * 0.08)


@pytest.mark.parametrize(
    ("of_step", "found"),
    [
        pytest.param(STEP, parallel(wrapper="DataParallel", device_ids=1), id="one-device"),
        pytest.param(STEP, parallel(device_ids=4), id="one-process-a-device"),
        pytest.param(step(data_wait=81, forward=10, backward=9), OLD, id="little-computing"),
    ],
)
def test_is_silent(of_step, found):
    assert tip(HERE, of_step, found) is None

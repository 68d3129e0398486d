from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.tips.idle_gpus import idle_gpus as tip
from tests.support.facts import run, step
from tests.support.script_facts import gpu, model, parallel

STEP = step(forward=40, backward=50, optimizer=10)
ALONE = parallel(wrapper=None, world=1, devices=4, device="cuda")
HERE = run(command=("train.py", "--name", "a b"), device="Tesla V100")


def test_counts_the_devices_and_gives_the_command():
    advice = tip(HERE, STEP, ALONE, gpu(0.9), model())
    assert advice.because == (
        "4 devices are visible, 1 is in use (90% busy)",
        "each rank would synchronise 4 MB of gradients per step",
    )
    assert advice.code == "torchrun --nproc-per-node 4 train.py --name 'a b'"


def test_a_small_model_gains_nearly_the_number_of_devices():
    share = tip(HERE, STEP, ALONE, gpu(), model()).change.step
    assert share.low < share.likely < share.high < 0.75
    assert share.likely == pytest.approx(0.75, abs=0.001)


def test_exchange_of_a_large_model_eats_the_gain():
    share = tip(HERE, STEP, ALONE, gpu(), model(parameters=300_000_000)).change.step
    assert share.low == 0.0
    assert 0.5 < share.likely < 0.75


def test_devices_that_others_use_are_left_to_them():
    advice = tip(HERE, STEP, ALONE, replace(gpu(), free=1), model())
    assert (
        advice.because[0] == "4 devices are visible, 1 is in use (90% busy), 2 are busy with other programs"
    )
    assert advice.code.startswith("export CUDA_VISIBLE_DEVICES=...")
    assert advice.code.endswith("\ntorchrun --nproc-per-node 2 train.py --name 'a b'")
    assert advice.change.step.likely == pytest.approx(0.5, abs=0.001)
    assert tip(HERE, STEP, ALONE, replace(gpu(), free=0), model()) is None
    assert tip(HERE, STEP, ALONE, replace(gpu(), free=3), model()) == tip(HERE, STEP, ALONE, gpu(), model())


def test_of_several_hosts_each_has_its_own_devices():
    half = parallel(world=8, devices=8, device="cuda")
    advice = tip(run(ranks=4, command=("torchrun", "--nproc-per-node=4", "t.py")), STEP, half, gpu(), model())
    assert advice.because[0] == "8 devices are visible, 4 are in use (90% busy)"
    assert advice.code == "torchrun --nproc-per-node=8 t.py"


@pytest.mark.parametrize(
    ("of_step", "found", "of_gpu"),
    [
        pytest.param(STEP, parallel(world=4, devices=4), gpu(), id="a-rank-for-each"),
        pytest.param(STEP, parallel(world=1, device_ids=4, devices=4), gpu(), id="all-in-one-process"),
        pytest.param(STEP, parallel(world=16, devices=8), gpu(), id="two-hosts"),
        pytest.param(STEP, ALONE, gpu(0.49), id="it-waits-for-the-host"),
        pytest.param(STEP, ALONE, gpu(None), id="not-sampled"),
        pytest.param(step(data_wait=81, forward=19), ALONE, gpu(), id="it-waits-for-batches"),
    ],
)
def test_is_silent(of_step, found, of_gpu):
    assert tip(HERE, of_step, found, of_gpu, model()) is None
